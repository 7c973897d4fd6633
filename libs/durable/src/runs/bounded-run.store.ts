import type { LoopEvent } from '@toolloop/core';
import { askStore, outsideOfRuns, type RunEntry } from '@toolloop/core/internal';
import {
  type EventPage,
  type HeldRun,
  type NewRun,
  type RunHold,
  type RunQuery,
  type RunRecord,
  RunStore,
  type RunWrite,
} from './run-store.js';

/**
 * The store of runs as everything here uses it: each call takes 8 s at most, and is repeated where it failed for a reason that may pass. What is written of a run is
 * no part of it: it is kept whatever becomes of the run in this process.
 */
export class BoundedRunStore extends RunStore {
  constructor(private readonly store: RunStore) {
    super();
  }

  override open(): Promise<void> {
    return this.store.open(); // where that fails the application does not start
  }

  /** A running one has an id of its own, so one that is there already was added by an attempt without an answer. Of a queued one the caller knows it again. */
  override add(run: NewRun, status: 'running' | 'queued'): Promise<RunHold> {
    return this.ask(async (attempt) => {
      const isKnown = attempt > 1 && status === 'running' && (await this.store.find(run.runId)) !== undefined;
      return isKnown ? { runId: run.runId, epoch: 1 } : this.store.add(run, status);
    });
  }

  /** Not repeated: a claim without an answer may hold, and the run is then taken over as one of which nobody tells. */
  override claim(runId: string): Promise<HeldRun | undefined> {
    return outsideOfRuns(() => askStore(() => this.store.claim(runId), { isRepeatable: false }));
  }

  /** The same write twice is kept once. One with an ending is refused once it is kept, so the run is looked at. */
  override write(hold: RunHold, write: RunWrite): Promise<void> {
    return this.ask(async (attempt) => {
      if (attempt > 1 && write.ending && (await this.isEnded(hold, write))) return;
      await this.store.write(hold, write);
    });
  }

  override beat(holds: readonly RunHold[]): Promise<readonly Pick<RunRecord, 'runId' | 'cancelled'>[]> {
    return this.ask(() => this.store.beat(holds));
  }

  override release(hold: RunHold): Promise<void> {
    return this.ask(() => this.store.release(hold));
  }

  override requeueSilent(silentMs: number): Promise<number> {
    return this.ask(() => this.store.requeueSilent(silentMs));
  }

  override wake(runId: string): Promise<void> {
    return this.ask(() => this.store.wake(runId));
  }

  override wakeAt(runId: string, at: Date): Promise<void> {
    return this.ask(() => this.store.wakeAt(runId, at));
  }

  override cancel(runId: string, reason: string): Promise<void> {
    return this.ask(() => this.store.cancel(runId, reason));
  }

  override find(runId: string): Promise<RunRecord | undefined> {
    return this.ask(() => this.store.find(runId));
  }

  override list(query: RunQuery): Promise<readonly RunRecord[]> {
    return this.ask(() => this.store.list(query));
  }

  override entries(runId: string): Promise<readonly RunEntry[]> {
    return this.ask(() => this.store.entries(runId));
  }

  override events(runId: string, page: EventPage): Promise<readonly LoopEvent[]> {
    return this.ask(() => this.store.events(runId, page));
  }

  override watch(runId: string, changed: () => void): Promise<() => Promise<void>> {
    return this.ask(() => this.store.watch(runId, changed));
  }

  override work(advance: (runId: string) => Promise<void>, most: number): Promise<() => Promise<void>> {
    return this.store.work((runId) => outsideOfRuns(() => advance(runId)), most);
  }

  private ask<Result>(attempt: (number: number) => Promise<Result>): Promise<Result> {
    return outsideOfRuns(() => askStore(attempt));
  }

  /** Whether an attempt without an answer kept the ending: its events are there. */
  private async isEnded({ runId }: RunHold, { events }: RunWrite): Promise<boolean> {
    const last = events.at(-1)?.sequence ?? 0;
    const run = await this.store.find(runId);
    return run !== undefined && run.status !== 'running' && run.lastSequence >= last;
  }
}
