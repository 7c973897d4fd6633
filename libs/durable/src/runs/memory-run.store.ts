import { setImmediate } from 'node:timers/promises';
import type { LoopEvent } from '@toolloop/core';
import type { RunEntry } from '@toolloop/core/internal';
import {
  copiesOf,
  type EventPage,
  type HeldRun,
  type NewRun,
  type RunHold,
  RunLostError,
  type RunQuery,
  type RunRecord,
  RunStore,
  type RunWrite,
  withDates,
} from './run-store.js';

interface KeptRun {
  record: RunRecord;
  epoch: number;
  isWoken: boolean;
  toldAt: number;
  readonly entries: Map<string, RunEntry>;
  readonly events: Map<number, LoopEvent>;
}

/** What a timer can take; an earlier look at a run does no harm. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Keeps runs for as long as the process lives: for tests, and to try things out. */
export class MemoryRunStore extends RunStore {
  private readonly runs = new Map<string, KeptRun>();
  private readonly queue: string[] = [];
  private readonly watchers = new Set<{ readonly runId: string; changed(): void }>();
  private readonly workers = new Set<() => void>();

  override open(): Promise<void> {
    return Promise.resolve();
  }

  override add({ entries = [], ...run }: NewRun, status: 'running' | 'queued'): Promise<RunHold> {
    if (this.runs.has(run.runId)) return Promise.reject(new Error(`There is a run ${run.runId} already.`));
    const at = new Date().toISOString();
    const record: RunRecord = { ...run, status, lastSequence: 0, createdAt: at, updatedAt: at };
    const kept = new Map(copiesOf(entries).map((entry) => [entry.key, entry]));
    this.runs.set(run.runId, { record, epoch: 1, isWoken: false, toldAt: Date.now(), entries: kept, events: new Map() });
    if (status === 'queued') this.enqueue(run.runId);
    return Promise.resolve({ runId: run.runId, epoch: 1 });
  }

  override claim(runId: string): Promise<HeldRun | undefined> {
    const run = this.runs.get(runId);
    if (run?.record.status !== 'queued' && run?.record.status !== 'waiting') return Promise.resolve(undefined);
    run.epoch += 1;
    run.toldAt = Date.now();
    this.change(run, { status: 'running' });
    return Promise.resolve({ hold: { runId, epoch: run.epoch }, record: run.record });
  }

  override write(hold: RunHold, { entries, events, ending }: RunWrite): Promise<void> {
    const run = this.held(hold);
    if (!run) return Promise.reject(new RunLostError(hold));
    writeDown(run, entries, events);
    const lastSequence = events.at(-1)?.sequence ?? run.record.lastSequence;
    this.change(run, { lastSequence, ...ending });
    if (ending?.status === 'waiting' && (run.isWoken || run.record.cancelled !== undefined)) this.enqueue(hold.runId);
    for (const watcher of this.watchers) if (watcher.runId === hold.runId) watcher.changed();
    return Promise.resolve();
  }

  override beat(holds: readonly RunHold[]): Promise<readonly Pick<RunRecord, 'runId' | 'cancelled'>[]> {
    const held = holds.flatMap((hold) => this.held(hold) ?? []);
    for (const run of held) run.toldAt = Date.now();
    return Promise.resolve(held.map(({ record }) => record));
  }

  override release(hold: RunHold): Promise<void> {
    if (this.held(hold)) this.enqueue(hold.runId);
    return Promise.resolve();
  }

  override requeueSilent(silentMs: number): Promise<number> {
    const silent = [...this.runs.values()].filter(({ record, toldAt }) => record.status === 'running' && Date.now() - toldAt > silentMs);
    for (const { record } of silent) this.enqueue(record.runId);
    return Promise.resolve(silent.length);
  }

  override wake(runId: string): Promise<void> {
    const run = this.runs.get(runId);
    if (run?.record.status === 'waiting') this.enqueue(runId);
    else if (run) run.isWoken = true;
    return Promise.resolve();
  }

  override wakeAt(runId: string, at: Date): Promise<void> {
    const ms = Math.min(LONGEST_TIMER_MS, Math.max(0, at.getTime() - Date.now()));
    const timer = setTimeout(() => {
      if (this.runs.get(runId)?.record.status === 'waiting') this.enqueue(runId);
    }, ms);
    timer.unref();
    return Promise.resolve();
  }

  override cancel(runId: string, reason: string): Promise<void> {
    const run = this.runs.get(runId);
    if (!run || run.record.status === 'ended') return Promise.resolve();
    this.change(run, { cancelled: reason });
    if (run.record.status === 'waiting') this.enqueue(runId);
    return Promise.resolve();
  }

  override find(runId: string): Promise<RunRecord | undefined> {
    return Promise.resolve(this.runs.get(runId)?.record);
  }

  override list({ tenant, actorId, status, limit = 100, after }: RunQuery): Promise<readonly RunRecord[]> {
    const all = [...this.runs.values()].map(({ record }) => record).toReversed();
    const theirs = all.filter((record) => record.tenant === tenant && record.actorId === actorId);
    const known = after === undefined ? 0 : theirs.findIndex(({ runId }) => runId === after) + 1;
    const rest = theirs.slice(known).filter((record) => status === undefined || record.status === status);
    return Promise.resolve(rest.slice(0, limit));
  }

  override entries(runId: string): Promise<readonly RunEntry[]> {
    return Promise.resolve(copiesOf([...(this.runs.get(runId)?.entries.values() ?? [])]));
  }

  override events(runId: string, { after, limit }: EventPage): Promise<readonly LoopEvent[]> {
    const all = [...(this.runs.get(runId)?.events.values() ?? [])];
    return Promise.resolve(copiesOf(all.filter(({ sequence }) => sequence > after).slice(0, limit)).map(withDates));
  }

  override watch(runId: string, changed: () => void): Promise<() => Promise<void>> {
    const watcher = { runId, changed };
    this.watchers.add(watcher);
    return Promise.resolve(() => Promise.resolve(void this.watchers.delete(watcher)));
  }

  override work(advance: (runId: string) => Promise<void>, most: number): Promise<() => Promise<void>> {
    let running = 0;
    const next = (): void => {
      if (running >= most || !this.workers.has(next)) return;
      const runId = this.queue.shift();
      if (runId === undefined) return;
      running += 1;
      void setImmediate()
        .then(() => advance(runId))
        .catch(() => this.again(runId))
        .finally(() => {
          running -= 1;
          next();
        });
      next();
    };
    this.workers.add(next);
    next();
    return Promise.resolve(() => Promise.resolve(void this.workers.delete(next)));
  }

  /** Somebody could not go on with it. */
  private again(runId: string): void {
    if (this.runs.get(runId)?.record.status === 'queued') this.enqueue(runId);
  }

  private held({ runId, epoch }: RunHold): KeptRun | undefined {
    const run = this.runs.get(runId);
    return run?.epoch === epoch && run.record.status === 'running' ? run : undefined;
  }

  private enqueue(runId: string): void {
    const run = this.runs.get(runId);
    if (!run) return;
    run.isWoken = false;
    this.change(run, { status: 'queued' });
    this.queue.push(runId);
    for (const next of this.workers) next();
  }

  private change(run: KeptRun, change: Partial<RunRecord>): void {
    run.record = { ...run.record, ...change, updatedAt: new Date().toISOString() };
  }
}

function writeDown(run: KeptRun, entries: readonly RunEntry[], events: readonly LoopEvent[]): void {
  for (const entry of copiesOf(entries)) {
    run.entries.delete(entry.key); // a key that is written again stands where it was written last
    run.entries.set(entry.key, entry);
  }
  for (const event of copiesOf(events)) run.events.set(event.sequence, event);
  run.toldAt = Date.now();
}
