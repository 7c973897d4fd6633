import { batchesOf, type EventBatches, type ModelEvent } from '@toolloop/protocol';
import { Interruption } from '../contracts/interruption.js';

/**
 * Reads an answer until it ends or the signal is aborted, whether the model listens to the signal
 * or not. One listener serves all reads.
 */
export class InterruptibleBatches {
  private readonly batches: EventBatches;
  private reject: ((reason: Interruption) => void) | undefined;
  private readonly interrupt = (): void => this.reject?.(Interruption.from(this.signal));

  constructor(
    source: AsyncIterable<ModelEvent>,
    private readonly signal: AbortSignal,
  ) {
    this.batches = batchesOf(source);
    signal.addEventListener('abort', this.interrupt, { once: true });
  }

  get hasEnded(): boolean {
    return this.batches.hasEnded === true;
  }

  next(): Promise<readonly ModelEvent[] | undefined> {
    if (this.signal.aborted) return Promise.reject(Interruption.from(this.signal));
    return new Promise((resolve, reject) => {
      this.reject = reject;
      this.batches.next().then(resolve, reject);
    });
  }

  /** Tells the source that no more is read. Not awaited: a source that hangs may hang here too. */
  close(): void {
    this.signal.removeEventListener('abort', this.interrupt);
    const closing = this.batches.close();
    if (closing) closing.catch(() => undefined);
  }
}
