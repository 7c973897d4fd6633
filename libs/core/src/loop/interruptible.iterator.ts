import { Interruption } from '../execution/interruption.js';

/** Reads an iteration until it ends or the signal is aborted, whether the iteration listens to the signal or not. One listener serves all reads. */
export class InterruptibleIterator<Value> {
  private readonly iterator: AsyncIterator<Value>;
  private reject: ((reason: Interruption) => void) | undefined;
  private readonly interrupt = (): void => this.reject?.(Interruption.from(this.signal));

  constructor(
    source: AsyncIterable<Value>,
    private readonly signal: AbortSignal,
  ) {
    this.iterator = source[Symbol.asyncIterator]();
    signal.addEventListener('abort', this.interrupt, { once: true });
  }

  next(): Promise<IteratorResult<Value>> {
    if (this.signal.aborted) return Promise.reject(Interruption.from(this.signal));
    return new Promise((resolve, reject) => {
      this.reject = reject;
      this.iterator.next().then(resolve, reject);
    });
  }

  /** Tells the source that nobody reads on. Not awaited: a source that hangs may hang here too. */
  close(): void {
    this.signal.removeEventListener('abort', this.interrupt);
    void this.leave().catch(() => undefined);
  }

  private async leave(): Promise<void> {
    await this.iterator.return?.();
  }
}
