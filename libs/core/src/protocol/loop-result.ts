import type { Citation } from './citation.js';
import type { JsonValue } from './json.js';
import type { Message } from './message.js';
import type { ToolSpec } from './tool.js';
import type { ToolInvocationRecord } from './tool-invocation-record.js';
import type { Usage } from './usage.js';

/**
 * Why a run ended. A run that reached a limit (`max_steps`, `max_calls`, `no_progress`, `timeout`, `budget`) still has its transcript and usage: nothing is lost.
 */
export type FinishReason =
  | 'stop'
  | 'length'
  | 'content_filter'
  | 'max_steps'
  | 'max_calls'
  | 'no_progress'
  | 'timeout'
  | 'budget'
  | 'forbidden'
  | 'tool_error'
  | 'waiting'
  | 'aborted'
  | 'error';

/**
 * What went wrong with a run, safe to show; the cause is in the log under the correlation id. `cannot_continue` means that this application can no longer continue a
 * stored run, for example because its actor or its loop no longer exists, or because another release stored it in
 * another form; the message says what to do. `storage_unavailable` means that a store did not answer, and was asked again for some seconds: no call was lost, and a step
 * that was not over is kept as one that waits, where a store takes it by then.
 */
export interface RunFailure {
  readonly code:
    | 'model_error'
    | 'model_incomplete'
    | 'invalid_output'
    | 'invalid_step'
    | 'stop_condition'
    | 'cannot_continue'
    | 'storage_unavailable'
    | 'internal';
  readonly message: string;
  readonly correlationId?: string;
}

/**
 * The result of a run. A controller may return it: `JSON.stringify` gives the UI projection, and `messages` is not enumerable.
 */
export interface LoopResult<Output = unknown> {
  readonly runId: string;
  /** The validated answer, if the request asked for one and the run finished with `stop`. */
  readonly output?: Output;
  /** The text of the last answer. */
  readonly text: string;
  /** The sources that the model names for that text, if it names any. */
  readonly citations?: readonly Citation[];
  readonly finishReason: FinishReason;
  readonly steps: number;
  readonly toolCalls: readonly ToolInvocationRecord[];
  /** Every tool that was injected, in order. */
  readonly injectedTools: readonly ToolSpec[];
  readonly usage: Usage;
  /** The whole transcript in the model's projection; pass it as `messages` to continue. Not enumerable. */
  readonly messages: readonly Message[];
  readonly error?: RunFailure;
  /** A sentence that says which limit, quota or stop condition it was, if the reason alone does not. */
  readonly finishDetail?: string;
  toJSON(): JsonValue;
}
