import type { Type } from '@nestjs/common';
import type { SubRun } from '../protocol/sub-run.js';
import type { ToolCallContext } from '../protocol/tool-call-context.js';
import type { RawToolClass, RawToolDeclaration } from './raw-tool.declaration.js';

/** Code that a raw tool runs. */
interface Executable<Input> {
  execute(input: Input, context: ToolCallContext): unknown;
}

/** A tool that is not a method of a provider. It only records the declaration, which is compiled and checked when the application starts. */
export class RawTool {
  constructor(
    readonly declaration: Partial<RawToolDeclaration>,
    /** Shown in findings. */
    readonly at: string,
    readonly source: Executable<unknown>,
    /** The class it was made of, by which it can be selected. */
    readonly type?: Type,
    /** Set where a call of it is a run. */
    readonly subRun?: SubRun,
  ) {}
}

/** Makes a function a tool, for `ToolLoopModule.forRoot({ tools })` and `forFeature({ tools })`. */
export function tool<Input>(declaration: RawToolDeclaration<Input> & Executable<Input>): RawTool {
  return new RawTool(declaration, `tool ${declaration.id}`, declaration);
}

/** How a class becomes a tool; overrides the class's static `tool`. */
export type RawToolSettings<Options> = Partial<Omit<RawToolDeclaration, 'id'>> & {
  /** The tool's id. @default the `id` in the class's static `tool` */
  readonly as?: string;
  /** Passed to the class's constructor. */
  readonly options?: Options;
};

/** Makes a class a tool; all the class needs is a method `call`. */
export function rawTool<Options>(type: RawToolClass<Options>, { as, options, ...own }: RawToolSettings<NoInfer<Options>> = {}): RawTool {
  const id = as ?? type.tool?.id;
  const declaration = { ...type.tool, ...own, ...(id !== undefined && { id }) };
  return new RawTool(declaration, type.name, executableOf(type, options), type);
}

/** One instance serves every call: it is made when the application starts, so that a missing option is found then. */
function executableOf<Options>(type: RawToolClass<Options>, options: Options | undefined): Executable<unknown> {
  const instance: unknown = Reflect.construct(type, options === undefined ? [] : [options]);
  if (!isCallable(instance)) throw new TypeError(`${type.name} has no method "call", which a raw tool needs.`);
  return { execute: (input, context) => instance.call(input, context) };
}

function isCallable(value: unknown): value is { call(input: unknown, context: ToolCallContext): unknown } {
  return typeof value === 'object' && value !== null && 'call' in value && typeof value.call === 'function';
}
