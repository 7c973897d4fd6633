import type { Type } from '@nestjs/common';
import type { JsonValue, ToolEffect, ToolLabels } from '@toolloop/protocol';
import 'reflect-metadata';
import type { RunContext, ToolCallContext, ToolExecutionOptions } from '../contracts/tool-call.js';
import type { IdempotencyScope, PerformedDirective, ReservedAllowance, ToolDirective } from '../contracts/tool.js';

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

/**
 * Makes a tool that changes things request its effect instead of having it at once: a call that was checked, permitted and approved is stored as a directive, and the
 * model reads its id. The effect happens later, once, in the name of the same actor, if it is still permitted then.
 */
export interface DirectiveDeclaration {
  /** Names the effect, e.g. `order.refund`: words of lower-case letters and digits, joined by `.`, `-` or `_`. No two tools share one. */
  readonly type: string;
  /** What the effect is about, as a template over the arguments: `{orderId}`. These must be required strings, numbers or booleans, and not hidden. */
  readonly subject: string;
  /**
   * What makes two requests about a subject the same directive: `whole` if the effect happens once per subject, `{month}` if once a month. With a key, the same request by
   * a colleague is the same directive; without one, only a repetition of the same request is. @default the request's id
   */
  readonly key?: string;
  /** `required` refuses the call if the tool's `preview` fails. The approver and the model read the preview. @default 'optional' */
  readonly preview?: ToolDirective['preview'];
  /**
   * Names a method of the class that undoes the effect of a directive that is cancelled after it was performed. It is called on the same instance with the same input,
   * a `PerformedDirective` and the call's context, under the same rules as the tool itself; its result is ignored. @default it cannot be undone
   */
  readonly compensate?: string;
  /**
   * What happens if it is unknown whether the effect took place, for example after a crash in the middle of it or an unexpected exception: `ask` waits for a
   * person to look; `repeat` performs it again, for effects that are recognised by `context.idempotencyKey` or do no harm twice. While
   * the method is still running in this process, for example after a timeout, both wait for a person. @default 'ask'
   */
  readonly maybeRan?: ToolDirective['maybeRan'];
  /** How often it is attempted before its status is `dead`. @default 5 */
  readonly attempts?: number;
}

/** The same for a tool that is no method. */
export type RawDirectiveDeclaration<Input = unknown> = Omit<DirectiveDeclaration, 'compensate'> & {
  compensate?(this: void, input: Input, performed: PerformedDirective, context: ToolCallContext): unknown;
};
