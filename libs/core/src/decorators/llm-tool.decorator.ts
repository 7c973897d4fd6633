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
 * The class whose `@Expose()` properties may leave a tool. Wrap it in a function if two classes name each other: `output: () => [Order]`.
 */
export type OutputDeclaration = OutputShape | (() => OutputShape);

interface ToolBasics {
  /** Sent to the model, to help it decide when to use the tool. */
  readonly description: string;
  /** What a call does to the world; policy, scheduling and retries depend on it. */
  readonly effect: ToolEffect;
  /** The last part of the tool's id. @default the method's name */
  readonly name?: string;
  /** @default private, untrusted, and egress for an `external_side_effect` */
  readonly labels?: Partial<ToolLabels>;
  /** Lists the tool only where it makes sense: returns whether it does in this run. @default always */
  readonly when?: (context: RunContext) => boolean;
  /** Milliseconds that one attempt of a call may take. @default the `toolCallMs` limit */
  readonly timeoutMs?: number;
  /**
   * For a tool that changes things: returns the key by which two calls have the same effect, e.g. `({ orderId }: Refund) => orderId`. Per tenant, actor, tool and
   * instance the effect of a key happens once: repeating the call, in another step or run, returns the stored outcome, and other arguments
   * under the same key are refused. It is called with validated input, once the call is permitted, and returns 1 to 512 characters. To pass a key to another system,
   * use `context.idempotencyKey`.
   * @default the place of the call in its request
   */
  idempotencyKey?(this: void, input: unknown, context: RunContext): string;
  /**
   * Who shares an `idempotencyKey`. With `tenant`, a colleague's call with the same key is the same call, for example because an order is shipped once, whoever asks. The
   * colleague then reads the first caller's result, so everybody who may call the tool must be allowed to see it. @default 'actor'
   */
  readonly idempotencyScope?: IdempotencyScope;
  /**
   * For a tool that changes things: whether making the same call twice has its effect once, because the system behind it recognises `context.idempotencyKey`, or
   * because everything happens in `context.transaction`. A call whose process died is then made again by itself. Without this and without an
   * `idempotencyKey`, a person is asked first, and if nobody can be asked the call ends as `unknown_outcome`. @default false
   */
  readonly idempotent?: boolean;
  /**
   * How many calls of the tool run at once in the process, over all runs and tenants. Others wait their turn, within their time. A method that goes
   * on after its time is up no longer counts. @default no limit
   */
  readonly concurrency?: number;
  /** Validation, logging and result format of this tool; overrides its provider's and the application's. */
  readonly execution?: ToolExecutionOptions;
  /** Puts a result into a sentence, for `resultFormat: 'envelope'`. It receives what the model may see. */
  readonly humanReadable?: (result: JsonValue) => string;
  /** Reserved argument names that this tool may declare nevertheless, and why; the audit records the reason with every call. */
  readonly allowReserved?: ReservedAllowance;
  /**
   * Whether the actor of the run may call the tool, in addition to policy: a function, or the name of a method of the class, which is called on the same
   * instance with the run's context. Asked at every call, and with `strictListing` also before the tool is listed. Anything but `true` denies, and so does
   * an exception, or no answer before the tool's time is up. @default policy alone decides
   */
  readonly canCall?: string | ((run: RunContext) => boolean | Promise<boolean>);
  /**
   * Names a method of the class that tells the approver what a call would do: it is called on the same instance, with the input (the DTO, or the
   * named arguments in an object) and the call's context, and returns a sentence or a `ToolPreview`. It must change nothing. It is called only when an approval
   * is needed; if it fails, the approval has no preview. Arguments that the UI may not see are removed from what it returns.
   */
  readonly preview?: string;
  /** Makes the call request its effect, which then happens later, once. @default the effect happens in the call */
  readonly directive?: DirectiveDeclaration;
}

/** What a tool declares. `output` or `reveal` says what may leave it; the application does not start if a tool has neither. */
export type LlmToolOptions = ToolBasics &
  (
    | { readonly output: OutputDeclaration; readonly reveal?: undefined }
    /** For scalars and plain objects: everything, or the named fields; `[]` for a method that returns nothing. */
    | { readonly reveal: 'all' | readonly string[]; readonly output?: undefined }
  );

export const LLM_TOOL_METADATA = 'toolloop:llm-tool';

/** Marks a method that the model may call. The order of decorators does not matter: the method is looked up by name when it is called. */
export function LlmTool(options: LlmToolOptions): MethodDecorator {
  return (prototype, property) => {
    Reflect.defineMetadata(LLM_TOOL_METADATA, options, prototype, property);
  };
}
