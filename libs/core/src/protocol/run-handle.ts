import type { Observable } from 'rxjs';
import type { LoopEvent } from './loop-event.js';
import type { LoopResult } from './loop-result.js';

/**
 * A run that starts when it is first read: by subscribing to `events$`, by iterating, or by asking for `result`. One reader reads its events.
 *
 * Iterating is pull-driven: a slow reader stops the reading of the provider's socket. Unsubscribing, or leaving the iteration, aborts the run.
 */
export interface RunHandle<Output = unknown> extends AsyncIterable<LoopEvent> {
  readonly runId: string;
  /** Cold, one subscriber: a second subscribe throws. After `run-start` it never errors; failures are a `run-end`. It errors where a run that waited cannot be taken up. */
  readonly events$: Observable<LoopEvent>;
  /**
   * Rejects with a `RunError`, which carries the partial result, when the run ends in `error` or `aborted`; with an `InvalidRequestError` (`unknown_run`) for a run
   * that waited, and that somebody else has resumed.
   */
  readonly result: Promise<LoopResult<Output>>;
  /** Gives the model another user message before its next answer. Throws when the run has ended, or goes on elsewhere. That of a durable run is kept at once. */
  addInput(message: string): void;
  /** Ends the run with `aborted`; its events end with a `run-end` as ever. */
  cancel(reason?: string): void;
}
