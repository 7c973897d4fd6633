import type { PerformedDirective, ToolDirective } from '../protocol/tool.js';
import type { ToolCallContext } from '../protocol/tool-call-context.js';

/**
 * Makes a tool that changes things ask for its effect instead of having it: a call, once it is checked, permitted and approved, is kept as a directive, and the model
 * reads its id. The effect happens once, later, in the name of the same actor, if it is still permitted then.
 */
export interface DirectiveDeclaration {
  /** What is intended, e.g. `order.refund`; words of small letters and digits, joined by `.`, `-` or `_`. No two tools share one. */
  readonly type: string;
  /** What it is about, made of the arguments: `{orderId}`. The arguments in it are texts, numbers or switches that every call has, and hide nothing. */
  readonly subject: string;
  /**
   * What makes two requests about a subject one, in the place of the request's id: `whole` where a subject is refunded once, `{month}` where once a month. With it
   * the same request by a colleague is the same directive; without it, only a repetition within the request is. @default the request's id
   */
  readonly key?: string;
  /** Whether the call is refused where the tool's `preview` fails. Whoever approves, and the model, read the preview. @default 'optional' */
  readonly preview?: ToolDirective['preview'];
  /**
   * Names a method of the class that undoes the effect, for a directive that is cancelled after it was performed: it is called on the same instance with the same input,
   * a `PerformedDirective` and the call's context, under the same rules as the tool itself, and its result is nobody's.
   */
  readonly compensate?: string;
  /**
   * What happens where nobody knows whether the effect took place, as after a crash in the middle of it or an exception without words of its own: `ask` waits for a
   * person to look; `repeat` performs it again, for effects that are known again by `context.idempotencyKey` or do no harm twice. @default 'ask'
   */
  readonly maybeRan?: ToolDirective['maybeRan'];
  /** How often it is attempted before it is dead. @default 5 */
  readonly attempts?: number;
}

/** The same for a tool that is no method. */
export type RawDirectiveDeclaration<Input = unknown> = Omit<DirectiveDeclaration, 'compensate'> & {
  compensate?(this: void, input: Input, performed: PerformedDirective, context: ToolCallContext): unknown;
};
