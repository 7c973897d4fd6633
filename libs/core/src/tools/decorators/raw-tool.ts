import type { Type } from '@nestjs/common';
import {
  INJECTABLE_WATERMARK,
  PROPERTY_DEPS_METADATA,
  SELF_DECLARED_DEPS_METADATA,
} from '@nestjs/common/constants.js';
import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec';
import { type JsonObject, recogniseCopies, type ToolPreview } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { SubRun } from '../../contracts/loop-request.js';
import type { Question, RunContext, ToolCallContext } from '../../contracts/tool-call.js';
import type { ToolWord } from '../../contracts/tool.js';
import { FUNCTION, TEXT, optionsOf } from '../../findings/option-rules.js';
import { CHECKED_BY_USE, defineOptions } from '../../findings/options.js';
import type { ClientDeclaration } from './client-tool.js';
import { RAW_DIRECTIVE, type RawDirectiveDeclaration } from './directive-declaration.js';
import { type LlmToolOptions, TOOL_BASICS } from './llm-tool.decorator.js';

/**
 * A tool that is not a method of a provider. It only records the declaration, which is compiled and
 * checked when the application starts.
 */
export class RawTool {
  constructor(
    readonly declaration: Partial<RawToolDeclaration>,
    /** Shown in findings. */
    readonly at: string,
    /**
     * Absent where the class is a provider, whose instance is found when the application starts.
     */
    readonly source: Executable<unknown> | undefined,
    /** The class it was made of, by which it can be selected. */
    readonly type?: RawType,
    /** Set where a call of it is a run. */
    readonly subRun?: SubRun,
    /** Set where the client makes its calls. */
    readonly client?: ClientDeclaration,
    /** The class whose guards, pipes, interceptors and filters hold for it. @default its own */
    readonly guardClass?: Type,
  ) {}
}

/** Code that a raw tool runs. */
interface Executable<Input> {
  execute(input: Input, context: ToolCallContext): unknown;
}

recogniseCopies('RawTool', RawTool);

/** Makes a function a tool, for `ToolLoopModule.forRoot({ tools })` and `forFeature({ tools })`. */
export function tool<Input>(declaration: RawToolDeclaration<Input> & Executable<Input>): RawTool {
  return new RawTool(declaration, `tool ${declaration.id}`, declaration);
}

/** Returns a tool for which the guards, pipes, interceptors and filters of a class hold. */
export function guardedAs(type: Type, raw: RawTool): RawTool {
  const { declaration, at, source, type: own, subRun, client } = raw;
  return new RawTool(declaration, at, source, own, subRun, client, type);
}

/** The class of a raw tool. */
export type RawType = Type & { readonly shortName?: string };

/** Options that make a class a tool; they override the class's static `tool`. */
export type RawToolSettings<Options> = Partial<Omit<RawToolDeclaration, 'id'>> & {
  /** The tool's id. @default the `id` in the class's static `tool` */
  readonly as?: string;
  /** Passed to the class's constructor. */
  readonly options?: Options;
};

/**
 * Makes a class or an instance a tool; all it needs is a method `call`. A class gets its `options`.
 * A class marked `@Injectable()` has its dependencies from Nest, unless it is given `options`: list
 * it in the `providers` of a module.
 *
 * @throws TypeError for what is no class and no instance of one, and for a class without a method
 *   `call`
 * @example
 * ToolLoopModule.forRoot({
 *   model,
 *   tools: [
 *     rawTool(FetchPage, { options: { allowHosts: ['example.com'] } }),
 *     rawTool(new SearchApi(client)),
 *     rawTool(StockService),
 *   ],
 * });
 */
export function rawTool<Options>(
  type: RawToolClass<Options>,
  settings?: RawToolSettings<NoInfer<Options>>,
): RawTool;
export function rawTool(
  from: CallableObject | InjectedToolClass,
  settings?: Omit<RawToolSettings<never>, 'options'>,
): RawTool;
export function rawTool(
  from: object,
  { as, options, ...own }: RawToolSettings<unknown> = {},
): RawTool {
  const type = typeOf(from);
  const id = as ?? type.tool?.id;
  const declaration = { ...type.tool, ...own, ...(id !== undefined && { id }) };
  const source = from === type ? sourceOf(type, options) : executableOf(type, from);
  return new RawTool(declaration, type.name, source, type);
}

function sourceOf(type: Type, options: unknown): Executable<unknown> | undefined {
  if (options !== undefined) return executableOf(type, Reflect.construct(type, [options]));
  return isInjectable(type) ? undefined : executableOf(type, Reflect.construct(type, []));
}

/** An instance with a method `call`. A function has one of its own, which is not meant. */
type CallableObject = { call(input: never, context: ToolCallContext): unknown } & {
  readonly apply?: never;
};

/** A class of which Nest makes the instance. */
interface InjectedToolClass {
  new (...dependencies: never[]): { call(input: never, context: ToolCallContext): unknown };
  readonly tool?: RawToolDeclaration;
}

function typeOf(from: object): RawType & { readonly tool?: RawToolDeclaration } {
  const type: unknown = typeof from === 'function' ? from : from.constructor;
  if (isClass(type)) return type;
  throw new TypeError('A raw tool is a class, or an instance of one, with a method "call".');
}

function isClass(value: unknown): value is RawType & { readonly tool?: RawToolDeclaration } {
  return typeof value === 'function' && typeof value.prototype === 'object' && value !== Object;
}

function isInjectable(type: Type): boolean {
  return [INJECTABLE_WATERMARK, SELF_DECLARED_DEPS_METADATA, PROPERTY_DEPS_METADATA].some((key) =>
    Reflect.hasMetadata(key, type),
  );
}

/**
 * Makes the code of a tool of an instance. One instance serves every call: it is made when the
 * application starts, so that a missing option is found then.
 *
 * @throws TypeError for an instance without a method `call`
 */
function executableOf(type: Type, instance: unknown): Executable<unknown> {
  if (!isCallable(instance))
    throw new TypeError(`${type.name} has no method "call", which a raw tool needs.`);
  return { execute: (input, context) => instance.call(input, context) };
}

/** Tells whether a value has the method that makes it a raw tool. */
export function isCallable(
  value: unknown,
): value is { call(input: unknown, context: ToolCallContext): unknown } {
  return (
    typeof value === 'object' &&
    value !== null &&
    'call' in value &&
    typeof value.call === 'function'
  );
}

/**
 * A schema of a library that follows Standard Schema and can say itself as JSON Schema, e.g. Zod 4
 * (https://standardschema.dev).
 */
export type StandardInput<Input = unknown> = StandardSchemaV1<unknown, Input> &
  StandardJSONSchemaV1<unknown, Input>;

/** The input of a raw tool: a DTO class, a Standard Schema or a JSON Schema. */
export type RawInput<Input = unknown> = Type<Input> | StandardInput<Input> | JSONSchema7;

/** The options of a tool that is no method of a provider. */
export type RawToolDeclaration<Input = unknown> = Omit<
  LlmToolOptions,
  | 'name'
  | 'output'
  | 'outputSchema'
  | 'reveal'
  | 'idempotencyKey'
  | 'questions'
  | 'rowsBefore'
  | 'canCall'
  | 'preflight'
  | 'preview'
  | 'directive'
> & {
  /** The tool's id, with its namespace: `web__fetch_page`. */
  readonly id: string;
  /** @default no arguments */
  readonly input?: RawInput<Input>;
  /** As in `@LlmTool()`. */
  idempotencyKey?(this: void, input: Input, context: RunContext): string;
  /** As in `@LlmTool()`. */
  questions?(
    this: void,
    input: Input,
    context: ToolCallContext,
  ): readonly Question[] | Promise<readonly Question[]>;
  /** As in `@LlmTool()`. */
  rowsBefore?(this: void, input: Input, context: ToolCallContext): JsonObject | Promise<JsonObject>;
  /** As in `@LlmTool()`, as a function. */
  readonly canCall?: (run: RunContext) => ToolWord | Promise<ToolWord>;
  /** As in `@LlmTool()`, as a function. */
  preflight?(this: void, input: Input, context: ToolCallContext): ToolWord | Promise<ToolWord>;
  /** As in `@LlmTool()`, as a function. */
  preview?(
    this: void,
    input: Input,
    context: ToolCallContext,
  ): string | ToolPreview | Promise<string | ToolPreview>;
  /** As in `@LlmTool()`, its `compensate` as a function. */
  readonly directive?: RawDirectiveDeclaration<Input>;
} & Pick<LlmToolOptions, 'output' | 'outputSchema' | 'reveal'>;

export const RAW_TOOL = defineOptions<
  RawToolDeclaration & { readonly execute?: Executable<unknown>['execute'] }
>(
  {
    ...TOOL_BASICS.rules,
    id: TEXT,
    input: CHECKED_BY_USE,
    canCall: FUNCTION,
    preflight: FUNCTION,
    preview: FUNCTION,
    directive: optionsOf(RAW_DIRECTIVE, { isHere: true }),
    output: CHECKED_BY_USE,
    reveal: CHECKED_BY_USE,
    outputSchema: CHECKED_BY_USE,
    execute: FUNCTION,
  },
  TOOL_BASICS.settings,
);

/**
 * A class that can be a raw tool: it has a method `call`, and perhaps a static `tool` with its
 * options.
 */
export interface RawToolClass<Options = never> {
  new (options: Options): { call(input: never, context: ToolCallContext): unknown };
  readonly tool?: RawToolDeclaration;
  /** A further name by which selections find the tool, beside the last part of its id. */
  readonly shortName?: string;
}
