import { AsyncLocalStorage } from 'node:async_hooks';
import type { LoopEvent } from '@toolloop/protocol';
import type { Subscriber } from 'rxjs';
import type { RunLog, RunRecord } from '../contracts/stores.js';

const MOST_READS = 3;

/**
 * The reads of one kind by all who look at runs in this process: a few at a time, so that thousands of readers who come at once do not stand in the way of the runs themselves.
 * A caller that asks for the same before a read has begun gets its answer.
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

const PAGE = 200;

/** The state of a reader after a read: it has all events of a run that has ended, has read some, or has all there are. */
type Progress = 'ended' | 'some' | 'none';

/** The events that a run has, and then those that come, until it has ended. */
export class WatchedRun {
  private wake: () => void = () => undefined;
  private hasChanged = false;
  private after = 0;

  constructor(
    private readonly log: RunLog,
    private readonly pages: SharedReads<readonly LoopEvent[]>,
    private readonly find: () => Promise<RunRecord>,
    private readonly subscriber: Subscriber<LoopEvent>,
  ) {}

  async follow(after: number): Promise<void> {
    this.after = after;
    let end: (() => Promise<void>) | undefined;
    try {
      const { runId } = await this.find();
      end = await this.log.watch(runId, () => this.changed());
      while (!this.subscriber.closed) if (await this.hasEnded(runId)) return this.subscriber.complete();
    } catch (error) {
      this.subscriber.error(error);
    } finally {
      await end?.().catch(() => undefined);
    }
  }

  stop(): void {
    this.changed();
  }

  /** Its last event tells that a run has ended; its status tells it to a reader that had read that event before. */
  private async hasEnded(runId: string): Promise<boolean> {
    this.hasChanged = false;
    const progress = await this.catchUp(runId);
    if (progress === 'ended') return true;
    const isOver = progress === 'none' && (await this.find()).status === 'ended';
    if (isOver) return (await this.catchUp(runId)) !== 'some'; // it may have ended after the first look
    if (!this.subscriber.closed) await this.change();
    return false;
  }

  private async catchUp(runId: string): Promise<Progress> {
    for (let progress: Progress = 'none'; ; progress = 'some') {
      const page = { after: this.after, limit: PAGE };
      const events = await this.pages.of(JSON.stringify([runId, page.after]), () => this.log.events(runId, page));
      for (const event of events) {
        this.subscriber.next(event);
        this.after = event.sequence;
      }
      const last = events.at(-1);
      if (last?.type === 'run-end' && last.finishReason !== 'waiting') return 'ended';
      if (events.length < PAGE || this.subscriber.closed) return last ? 'some' : progress;
    }
  }

  private changed(): void {
    this.hasChanged = true;
    this.wake();
  }

  private change(): Promise<void> {
    return this.hasChanged ? Promise.resolve() : new Promise((resolve) => (this.wake = resolve));
  }
}
