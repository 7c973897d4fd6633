import type { PerformedDirective, ToolDirective } from '../protocol/tool.js';
import type { ToolCallContext } from '../protocol/tool-call-context.js';

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
