import 'reflect-metadata';
import type { Type } from '@nestjs/common';
import type { ToolExecutionOptions } from '../protocol/execution-options.js';
import type { JsonValue } from '../protocol/json.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import type { IdempotencyScope, ReservedAllowance, ToolEffect, ToolLabels } from '../protocol/tool.js';
import type { DirectiveDeclaration } from './directive.declaration.js';

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
  /** Milliseconds one attempt of a call may take. @default the `toolCallMs` limit */
  readonly timeoutMs?: number;
  /**
   * For a tool that changes things: what makes two calls the same effect, e.g. `({ orderId }: Refund) => orderId`. Within a tenant, an actor, a tool and an
   * instance the effect of a key happens once: the same call again, in another step or run, is answered with the outcome that was kept, and other arguments
   * under the same key are refused. It is asked on checked input, when everything has let the call in; 1 to 512 characters. What a method can hand on is
   * `context.idempotencyKey`.
   * @default the place of the call in its request
   */
  idempotencyKey?(this: void, input: unknown, context: RunContext): string;
  /**
   * Whose calls have one effect for one `idempotencyKey`. With `tenant` a colleague's call is the same one, as where an order is shipped once, whoever asks: then
   * they read what the first call came to, so everybody who may call the tool must be allowed to. @default 'actor'
   */
  readonly idempotencyScope?: IdempotencyScope;
  /**
   * For a tool that changes things: whether the same call made twice does what it does once, because whoever performs it knows `context.idempotencyKey` again, or
   * because all of it happens in `context.transaction`. Then a call that was begun by a process that is gone is made again; without it and without an
   * `idempotencyKey` a person is asked whether to, and where nobody can be it ends as `unknown_outcome`. @default false
   */
  readonly idempotent?: boolean;
  /**
   * How many calls of the tool run at once in the process, over all runs and tenants. Others wait in their order, within their time. A method that goes
   * on when its time is up is not waited for. @default as many as are made
   */
  readonly concurrency?: number;
  /** Validation, logging and result format of this tool; wins over its provider's and the application's. */
  readonly execution?: ToolExecutionOptions;
  /** A result in a sentence, for `resultFormat: 'envelope'`. It is handed what the model may see. */
  readonly humanReadable?: (result: JsonValue) => string;
  /** Reserved argument names that this tool may have all the same, and why; every call of it is in the audit with the reason. */
  readonly allowReserved?: ReservedAllowance;
  /**
   * Whether whom the run acts for may call the tool, beside what policy says: a function, or the name of a method of the class, which is called on the same
   * instance with the run's context. Asked at every call, and with `strictListing` before the tool is listed. Whatever is not `true` denies; so does what
   * it throws, and silence until the tool's time is up. @default true
   */
  readonly canCall?: string | ((run: RunContext) => boolean | Promise<boolean>);
  /**
   * Names a method of the class that tells whoever approves a call what it would do: it is called on the same instance, with the input (the DTO, or the
   * named arguments in an object) and the call's context, and returns a sentence or a `ToolPreview`. It must change nothing. It is asked where an approval
   * is, and left out of it when it fails. Arguments that the ui may not see are taken out of what it returns.
   */
  readonly preview?: string;
  /** Makes the call ask for its effect, which happens once, later, instead of having it. @default the effect happens in the call */
  readonly directive?: DirectiveDeclaration;
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
