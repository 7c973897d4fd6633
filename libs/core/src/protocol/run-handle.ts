import type { Observable } from 'rxjs';
import type { LoopEvent } from './loop-event.js';
import type { LoopResult } from './loop-result.js';

/**
 * A run that starts when it is first read: by subscribing to `events$`, by iterating, or by asking for `result`. Its events have one reader.
 *
 * Iterating is pull-driven: a slow reader slows down the reading from the provider. Unsubscribing, or leaving the iteration, aborts the run; a durable run goes on.
 */
export interface RunHandle<Output = unknown> extends AsyncIterable<LoopEvent> {
  readonly runId: string;
  /** Cold, with one subscriber: a second one gets an error. After `run-start` it never errors, failures are a `run-end`; before that it errors if a run that waited cannot be resumed. */
  readonly events$: Observable<LoopEvent>;
  /**
   * Rejects with a `RunError`, which carries the partial result, when the run ends in `error` or `aborted`; with an `InvalidRequestError` (`unknown_run`) if somebody
   * else has resumed the run.
   */
  readonly result: Promise<LoopResult<Output>>;
  /** Gives the model another user message before its next answer; for a durable run it is stored at once. Throws if the run has ended or another process runs it. */
  addInput(message: string): void;
  /** Ends the run as `aborted`; as always, a `run-end` is its last event. */
  cancel(reason?: string): void;
}
