import type { LoopEvent } from '@toolloop/protocol';
import { Observable } from 'rxjs';
import type { RunLog, RunRecord } from '../contracts/run-log.js';
import { SharedReads } from './shared-reads.js';

/**
 * The events that a run has, and then those that come, until it has ended. They are read from the
 * log a page at a time, when the reader wants more: no reader slows the run, or makes pages pile
 * up.
 */
export class WatchedRun {
  private wake: () => void = () => undefined;
  private hasChanged = false;
  private isStopped = false;
  private after = 0;

  constructor(
    private readonly log: RunLog,
    private readonly pages: SharedReads<readonly LoopEvent[]>,
    private readonly find: () => Promise<RunRecord>,
    /** Emits when the process shuts down. */
    private readonly closed$: Observable<void>,
  ) {}

  /**
   * The events behind a sequence, for one reader. It ends without a `run-end` when the process
   * shuts down; leaving it stops the reading.
   */
  read(after: number): RunReading {
    const events = this.follow(after);
    return {
      [Symbol.asyncIterator]() {
        return this;
      },
      next: () => events.next(),
      return: () => {
        this.stop();
        return events.return();
      },
    };
  }

  private async *follow(after: number): AsyncGenerator<LoopEvent, void, undefined> {
    this.after = after;
    const closing = this.closed$.subscribe(() => this.stop());
    let end: (() => Promise<void>) | undefined;
    try {
      const { runId } = await this.find();
      end = await this.log.watch(runId, () => this.changed());
      while (!this.isStopped) if (yield* this.untilEnded(runId)) return;
    } finally {
      closing.unsubscribe();
      await end?.().catch(() => undefined);
    }
  }

  private stop(): void {
    this.isStopped = true;
    this.changed();
  }

  /**
   * Its last event tells that a run has ended; its status tells it to a reader that had read that
   * event before.
   */
  private async *untilEnded(runId: string): AsyncGenerator<LoopEvent, boolean, undefined> {
    this.hasChanged = false;
    const progress = yield* this.catchUp(runId);
    if (progress === 'ended') return true;
    const isOver = progress === 'none' && (await this.find()).status === 'ended';
    // it may have ended after the first look
    if (isOver) return (yield* this.catchUp(runId)) !== 'some';
    if (!this.isStopped) await this.change();
    return false;
  }

  private async *catchUp(runId: string): AsyncGenerator<LoopEvent, Progress, undefined> {
    for (let progress: Progress = 'none'; ; progress = 'some') {
      const page = { after: this.after, limit: PAGE };
      const events = await this.pages.of(JSON.stringify([runId, page.after]), () =>
        this.log.events(runId, page),
      );
      for (const event of events) {
        if (this.isStopped) return 'some';
        this.after = event.sequence;
        yield event;
      }
      const last = events.at(-1);
      if (last && isEnd(last)) return 'ended';
      if (events.length < PAGE || this.isStopped) return last ? 'some' : progress;
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

/** The events of a run, as one reader pulls them. */
export interface RunReading extends AsyncIterableIterator<LoopEvent, void, undefined> {
  return(): Promise<IteratorResult<LoopEvent, void>>;
}

/** Shows what is read to a subscriber, who gets it as fast as it comes. */
export function observed(read: () => RunReading): Observable<LoopEvent> {
  return new Observable((subscriber) => {
    const reading = read();
    const showAll = async (): Promise<void> => {
      for await (const event of reading) subscriber.next(event);
    };
    showAll().then(
      () => subscriber.complete(),
      (error: unknown) => subscriber.error(error),
    );
    return () => void reading.return();
  });
}

const PAGE = 200;

/**
 * Tells if a run is over with an event: one that waits is not, nor is one that was put off for
 * good, which an operator may resume.
 */
function isEnd(event: LoopEvent): boolean {
  return (
    event.type === 'run-end' &&
    event.finishReason !== 'waiting' &&
    event.error?.code !== 'storage_unavailable'
  );
}

/**
 * The state of a reader after a read: it has all events of a run that has ended, has read some, or
 * has all there are.
 */
type Progress = 'ended' | 'some' | 'none';
