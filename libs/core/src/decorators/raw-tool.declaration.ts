import type { Type } from '@nestjs/common';
import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec';
import type { JSONSchema7 } from 'json-schema';
import type { ToolPreview } from '../protocol/approval.js';
import type { RunContext, ToolCallContext } from '../protocol/tool-call-context.js';
import type { RawDirectiveDeclaration } from './directive.declaration.js';
import type { LlmToolOptions } from './llm-tool.decorator.js';

/** A schema of a library that follows Standard Schema and can say itself as JSON Schema, e.g. Zod 4 (https://standardschema.dev). */
export type StandardInput<Input = unknown> = StandardSchemaV1<unknown, Input> & StandardJSONSchemaV1<unknown, Input>;

/** What a raw tool takes: a DTO class, a Standard Schema or a JSON Schema. */
export type RawInput<Input = unknown> = Type<Input> | StandardInput<Input> | JSONSchema7;

/** What a tool says of itself when it is no method of a provider. */
export type RawToolDeclaration<Input = unknown> = Omit<
  LlmToolOptions,
  'name' | 'output' | 'reveal' | 'idempotencyKey' | 'canCall' | 'preview' | 'directive'
> & {
  /** The tool's id, with its namespace: `web__fetch_page`. */
  readonly id: string;
  /** @default no arguments */
  readonly input?: RawInput<Input>;
  /** As in `@LlmTool()`. */
  idempotencyKey?(this: void, input: Input, context: RunContext): string;
  /** As in `@LlmTool()`, as a function. */
  readonly canCall?: (run: RunContext) => boolean | Promise<boolean>;
  /** As in `@LlmTool()`, as a function. */
  preview?(this: void, input: Input, context: ToolCallContext): string | ToolPreview | Promise<string | ToolPreview>;
  /** As in `@LlmTool()`, its `compensate` as a function. */
  readonly directive?: RawDirectiveDeclaration<Input>;
} & Pick<LlmToolOptions, 'output' | 'reveal'>;

/** What a class needs to be a raw tool: a method `call`, and perhaps a static `tool` that describes it. */
export interface RawToolClass<Options = never> {
  new (options: Options): { call(input: never, context: ToolCallContext): unknown };
  readonly tool?: RawToolDeclaration;
}
