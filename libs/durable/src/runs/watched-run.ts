import type { LoopEvent } from '@toolloop/core';
import { Observable, type Subscriber } from 'rxjs';
import type { RunRecord, RunStore } from './run-store.js';

const PAGE = 200;
/** A word that something changed may be lost with a connection. */
const LONGEST_SILENCE_MS = 2_000;

/** What there is of a run, and then what comes, until it has ended. */
export function watched(store: RunStore, find: () => Promise<RunRecord>, after: number): Observable<LoopEvent> {
  return new Observable((subscriber) => {
    const watching = new WatchedRun(store, find, subscriber, after);
    void watching.follow();
    return () => watching.stop();
  });
}

class WatchedRun {
  private wake: () => void = () => undefined;
  private hasChanged = false;

  constructor(
    private readonly store: RunStore,
    private readonly find: () => Promise<RunRecord>,
    private readonly subscriber: Subscriber<LoopEvent>,
    private after: number,
  ) {}

  async follow(): Promise<void> {
    let end: (() => Promise<void>) | undefined;
    try {
      const { runId } = await this.find();
      end = await this.store.watch(runId, () => this.changed());
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

  /** The status is read before the events, so that none of an ended run is missed. */
  private async hasEnded(runId: string): Promise<boolean> {
    this.hasChanged = false;
    const { status, lastSequence } = await this.find();
    await this.catchUp(runId);
    const isOver = status === 'ended' && this.after >= lastSequence;
    if (!isOver && !this.subscriber.closed) await this.change();
    return isOver;
  }

  private async catchUp(runId: string): Promise<void> {
    for (;;) {
      const events = await this.store.events(runId, { after: this.after, limit: PAGE });
      for (const event of events) {
        this.subscriber.next(event);
        this.after = event.sequence;
      }
      if (events.length < PAGE || this.subscriber.closed) return;
    }
  }

  private changed(): void {
    this.hasChanged = true;
    this.wake();
  }

  private change(): Promise<void> {
    if (this.hasChanged) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, LONGEST_SILENCE_MS);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
