import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * The reads of one kind by all who look at runs in this process: a few at a time, so that thousands
 * of readers who come at once do not stand in the way of the runs themselves. A caller that asks
 * for the same before a read has begun gets its answer.
 */
export class SharedReads<Result> {
  private readonly next = new Map<string, Promise<Result>>();
  private readonly starts: (() => void)[] = [];
  private underWay = 0;
  /** A read is no part of the request, run or transaction of the one who asked for it first. */
  private readonly detached = AsyncLocalStorage.snapshot();

  of(key: string, read: () => Promise<Result>): Promise<Result> {
    const shared = this.next.get(key);
    if (shared) return shared;
    const mine = this.detached(() => this.inTurn(key, read));
    this.next.set(key, mine);
    return mine;
  }

  private async inTurn(key: string, read: () => Promise<Result>): Promise<Result> {
    await new Promise<void>((start) => {
      this.starts.push(start);
      queueMicrotask(() => this.startNext());
    });
    this.next.delete(key);
    try {
      return await read();
    } finally {
      this.underWay -= 1;
      this.startNext();
    }
  }

  private startNext(): void {
    const start = this.underWay < MOST_READS ? this.starts.shift() : undefined;
    if (!start) return;
    this.underWay += 1;
    start();
  }
}

const MOST_READS = 3;
