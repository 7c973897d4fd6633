import type { Citation } from './citation.js';
import type { JsonValue } from './json.js';
import type { Message } from './message.js';
import type { ToolSpec } from './tool.js';
import type { ToolInvocationRecord } from './tool-invocation-record.js';
import type { Usage } from './usage.js';

/**
 * Why a run ended. A limit (`max_steps`, `max_calls`, `no_progress`, `timeout`, `budget`) comes with the transcript and the usage: nothing is lost.
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
 * What went wrong with a run, safe to show; the cause is in the log under the correlation id. `cannot_continue`: a kept run is one that this application does not
 * know how to go on with any more, such as one whose actor or whose loop is gone, or one that was kept by a
 * release with another form; the message says what to do.
 */
export interface RunFailure {
  readonly code: 'model_error' | 'model_incomplete' | 'invalid_output' | 'invalid_step' | 'stop_condition' | 'cannot_continue' | 'internal';
  readonly message: string;
  readonly correlationId?: string;
}

/**
 * What a run came to. `JSON.stringify` gives the ui projection, and `messages` is not enumerable, so that a controller may return it.
 */
export interface LoopResult<Output = unknown> {
  readonly runId: string;
  /** The validated answer, when the request asked for one and the run finished with `stop`. */
  readonly output?: Output;
  /** The text of the last answer. */
  readonly text: string;
  /** Where the model says that it has that text from, if it does. */
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
  /** Which limit, quota or stop condition it was, in a sentence, where the reason alone does not tell. */
  readonly finishDetail?: string;
  toJSON(): JsonValue;
}
