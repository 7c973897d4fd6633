import 'reflect-metadata';
import type { Type } from '@nestjs/common';
import type { ToolExecutionOptions } from '../protocol/execution-options.js';
import type { JsonValue } from '../protocol/json.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import type { ToolEffect, ToolLabels } from '../protocol/tool.js';

/** A class, a list of it, or either with options. */
export type OutputShape = Type | readonly [Type] | { readonly type: Type | readonly [Type]; readonly nullable?: boolean };

/**
 * The class whose `@Expose()` properties may leave a tool. Wrap it in a function where two classes name each other: `output: () => [Order]`.
 */
export type OutputDeclaration = OutputShape | (() => OutputShape);

interface ToolBasics {
  /** Sent to the model, to help it decide when to use the tool. */
  readonly description: string;
  readonly effect: ToolEffect;
  /** Last part of the tool's id. @default the method's name */
  readonly name?: string;
  /** @default private, untrusted, and egress for an `external_side_effect` */
  readonly labels?: Partial<ToolLabels>;
  /** Lists the tool only where it makes sense. */
  readonly when?: (context: RunContext) => boolean;
  /** Milliseconds one call may take. @default the `toolCallMs` limit */
  readonly timeoutMs?: number;
  /** Validation, logging and result format of this tool; wins over its provider's and the application's. */
  readonly execution?: ToolExecutionOptions;
  /** A result in a sentence, for `resultFormat: 'envelope'`. It is handed what the model may see. */
  readonly humanReadable?: (result: JsonValue) => string;
  /** A reserved argument name this tool may have all the same, and why; the reason is kept with the declaration. */
  readonly allowReserved?: { readonly arguments: readonly string[]; readonly reason: string };
}

/** What a tool declares. What may leave it is said by `output` or by `reveal`; a tool with neither does not start the app. */
export type LlmToolOptions = ToolBasics &
  (
    | { readonly output: OutputDeclaration; readonly reveal?: undefined }
    /** For scalars and plain objects: everything, or the named fields; `[]` for a method that returns nothing. */
    | { readonly reveal: 'all' | readonly string[]; readonly output?: undefined }
  );

export const LLM_TOOL_METADATA = 'toolloop:llm-tool';

/** Marks a method that the model may call. Order with other decorators does not matter: the method is looked up by name when it is called. */
export function LlmTool(options: LlmToolOptions): MethodDecorator {
  return (prototype, property) => {
    Reflect.defineMetadata(LLM_TOOL_METADATA, options, prototype, property);
  };
}
