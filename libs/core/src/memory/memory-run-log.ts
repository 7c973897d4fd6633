import { setImmediate } from 'node:timers/promises';
import type { LoopEvent } from '@toolloop/protocol';
import type { OwedEntry } from '../contracts/owed-entry.js';
import { isHeldBy, type Lease, type LeaseRequest, leftMs, nextLease } from '../contracts/lease.js';
import {
  type EventPage,
  type LeasedRun,
  type NewRun,
  type OwedPage,
  type PutOff,
  type RunEntry,
  type RunHold,
  RunLog,
  RunLostError,
  type RunQuery,
  type RunRecord,
  type RunWrite,
} from '../contracts/run-log.js';
import { BoundedTable } from './bounded-table.js';
import { withDates } from './json-copies.js';

/**
 * Keeps runs for as long as the process lives: of each actor the last 1,000 that have ended, and up
 * to 1,000 that wait for that actor, of a tenant 10,000. A run that waits is never dropped, so no
 * further one is accepted then.
 */
export class MemoryRunLog extends RunLog {
  private readonly runs = new Map<string, LoggedRun>();
  /** The ids of queued runs by tenant, the tenant whose turn it is first. */
  private readonly queue = new Map<string, string[]>();
  private readonly watchers = new Set<{ readonly runId: string; changed(): void }>();
  private readonly workers = new Set<() => void>();
  private readonly owing = new Map<string, OwedEntry>();
  /** The ids of those that have ended by tenant and actor, in the order of their endings. */
  private readonly ended = new BoundedTable<string>({
    most: MAX_ENDED,
    dropped: (_owner, runId) => this.runs.delete(runId),
  });

  override open(): Promise<void> {
    return Promise.resolve();
  }

  override add(run: NewRun, status: 'queued' | 'waiting'): Promise<void> {
    if (this.runs.has(run.runId)) return Promise.reject(alreadyThere(run));
    const crowd = status === 'waiting' ? this.crowdOf(run) : undefined;
    if (crowd !== undefined)
      return Promise.reject(
        new Error(`${crowd} wait in memory, and no more are accepted. Bind a durable RunLog.`),
      );
    this.keep(run, { status, ...(status === 'waiting' && { finishReason: 'waiting' }) });
    if (status === 'queued') this.enqueue(run.runId);
    return Promise.resolve();
  }

  override begin(run: NewRun, request: LeaseRequest): Promise<Lease> {
    if (this.runs.has(run.runId)) return Promise.reject(alreadyThere(run));
    const lease = nextLease({}, request);
    this.keep(run, { status: 'running', lease });
    return Promise.resolve(lease);
  }

  override acquire(
    runId: string,
    request: LeaseRequest,
    epoch?: number,
  ): Promise<LeasedRun | undefined> {
    const run = this.runs.get(runId);
    if (!run) return Promise.resolve(undefined);
    const { record } = run;
    if (record.lease?.owner === request.owner)
      return Promise.resolve({ ...record, lease: record.lease });
    if (!isFree(record) || (epoch !== undefined && record.epoch !== epoch))
      return Promise.resolve(undefined);
    const lease = nextLease({ epoch: record.epoch }, request);
    this.change(run, { status: 'running', epoch: lease.epoch, lease });
    return Promise.resolve({ ...run.record, lease });
  }

  override append(hold: RunHold, { ending, ...write }: RunWrite): Promise<void> {
    const run = this.held(hold);
    const lastSequence = write.events.at(-1)?.sequence ?? run?.record.lastSequence ?? 0;
    if (!run || lastSequence < run.record.lastSequence)
      return Promise.reject(new RunLostError(hold));
    appendTo(run, write);
    this.keepOwed(write.owed);
    this.change(run, { lastSequence, ...ending });
    if (ending) this.finished(run);
    for (const watcher of this.watchers) if (watcher.runId === hold.runId) watcher.changed();
    return Promise.resolve();
  }

  override renew(
    holds: readonly RunHold[],
    forMs: number,
  ): Promise<readonly Pick<RunRecord, 'runId' | 'cancelled'>[]> {
    const held = holds.flatMap((hold) => this.held(hold) ?? []);
    for (const run of held) run.record = { ...run.record, ...renewed(run.record, forMs) };
    return Promise.resolve(held.map(({ record }) => record));
  }

  override release(hold: RunHold, putOff?: PutOff): Promise<void> {
    const run = this.held(hold);
    if (run?.record.request && putOff) this.putOff(run, putOff);
    else if (run) this.enqueue(hold.runId);
    return Promise.resolve();
  }

  private putOff(run: LoggedRun, { times, until }: PutOff): void {
    this.change(run, { status: 'queued', putOffs: times });
    const { runId, epoch } = run.record;
    const isOff = (): boolean => {
      const { record } = this.runs.get(runId) ?? {};
      return record?.status === 'queued' && record.epoch === epoch && record.putOffs === times;
    };
    setTimeout(
      () => (isOff() ? this.queueUp(runId) : undefined),
      Math.max(0, until.getTime() - Date.now()),
    ).unref();
  }

  override requeueExpired(): Promise<number> {
    const expired = [...this.runs.values()].filter(
      ({ record }) => record.request && record.status === 'running' && isFree(record),
    );
    for (const { record } of expired) this.enqueue(record.runId);
    return Promise.resolve(expired.length);
  }

  override wake(runId: string): Promise<void> {
    const run = this.runs.get(runId);
    if (run && isIdle(run.record)) this.enqueue(runId);
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
    if (isIdle(run.record)) this.enqueue(runId);
    return Promise.resolve();
  }

  override find(runId: string): Promise<RunRecord | undefined> {
    return Promise.resolve(this.runs.get(runId)?.record);
  }

  override list({
    tenant,
    actorId,
    status,
    limit = 100,
    after,
  }: RunQuery): Promise<readonly RunRecord[]> {
    const all = [...this.runs.values()].map(({ record }) => record).toReversed();
    const theirs = all.filter(
      (record) => record.tenant === tenant && (actorId ?? record.actorId) === record.actorId,
    );
    const known = after === undefined ? 0 : theirs.findIndex(({ runId }) => runId === after) + 1;
    const rest = theirs
      .slice(known)
      .filter((record) => status === undefined || record.status === status);
    return Promise.resolve(rest.slice(0, limit));
  }

  override read(runId: string): Promise<readonly RunEntry[]> {
    return Promise.resolve(copiesOf([...(this.runs.get(runId)?.entries.values() ?? [])]));
  }

  override events(runId: string, { after, limit }: EventPage): Promise<readonly LoopEvent[]> {
    const all = [...(this.runs.get(runId)?.events.values() ?? [])];
    return Promise.resolve(
      copiesOf(all.filter(({ sequence }) => sequence > after).slice(0, limit)).map(withDates),
    );
  }

  override owe(entries: readonly OwedEntry[]): Promise<void> {
    this.keepOwed(entries);
    return Promise.resolve();
  }

  override listOwed({ after, limit }: OwedPage): Promise<readonly OwedEntry[]> {
    const ordered = [...this.owing.values()].toSorted(inTime);
    const rest = after ? ordered.filter((entry) => inTime(after, entry) < 0) : ordered;
    return Promise.resolve(rest.slice(0, limit));
  }

  override settle(entryIds: readonly string[]): Promise<void> {
    for (const entryId of entryIds) this.owing.delete(entryId);
    return Promise.resolve();
  }

  private keepOwed(entries: readonly OwedEntry[] = []): void {
    for (const entry of entries)
      if (!this.owing.has(entry.entryId) && this.owing.size < MAX_OWED)
        this.owing.set(entry.entryId, entry);
  }

  override watch(runId: string, changed: () => void): Promise<() => Promise<void>> {
    const watcher = { runId, changed };
    this.watchers.add(watcher);
    return Promise.resolve(() => Promise.resolve(void this.watchers.delete(watcher)));
  }

  override work(
    advance: (runId: string) => Promise<void>,
    most: number,
  ): Promise<() => Promise<void>> {
    let running = 0;
    const next = (): void => {
      if (running >= most || !this.workers.has(next)) return;
      const runId = this.takeTurn();
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

  /**
   * Takes the first run of the tenant whose turn it is; the tenant's next turn comes after all
   * others'.
   */
  private takeTurn(): string | undefined {
    const [turn] = this.queue;
    if (!turn) return undefined;
    const [tenant, queued] = turn;
    const runId = queued.shift();
    this.queue.delete(tenant);
    if (queued.length > 0) this.queue.set(tenant, queued);
    return runId;
  }

  /** Hands out again a run that could not be continued. */
  private again(runId: string): void {
    if (this.runs.get(runId)?.record.status === 'queued') this.enqueue(runId);
  }

  private keep(
    { entries = [], events = [], ...run }: NewRun,
    state: Pick<RunRecord, 'status' | 'finishReason' | 'lease'>,
  ): void {
    const at = new Date().toISOString();
    const lastSequence = events.at(-1)?.sequence ?? 0;
    const record: RunRecord = {
      ...run,
      ...state,
      epoch: 1,
      lastSequence,
      createdAt: at,
      updatedAt: at,
    };
    const logged: LoggedRun = { record, isWoken: false, entries: new Map(), events: new Map() };
    appendTo(logged, { entries, events });
    this.runs.set(run.runId, logged);
  }

  private held(hold: RunHold): LoggedRun | undefined {
    const run = this.runs.get(hold.runId);
    return isHeldBy(run?.record.lease, hold) ? run : undefined;
  }

  /** A run that is not durable waits for its actor instead. */
  private enqueue(runId: string): void {
    const run = this.runs.get(runId);
    if (!run) return;
    run.isWoken = false;
    const { putOffs: _forgotten, ...record } = run.record;
    run.record = record;
    this.change(run, { status: run.record.request ? 'queued' : 'waiting' });
    if (run.record.request) this.queueUp(runId);
  }

  private queueUp(runId: string): void {
    const { tenant } = this.runs.get(runId)?.record ?? {};
    if (tenant === undefined) return;
    const queued = this.queue.get(tenant);
    if (queued) queued.push(runId);
    else this.queue.set(tenant, [runId]);
    for (const next of this.workers) next();
  }

  /** Names the runs that leave no room for another one that waits. */
  private crowdOf({ tenant, actorId }: NewRun): string | undefined {
    const waiting = [...this.runs.values()].filter(
      ({ record }) => record.status === 'waiting' && record.tenant === tenant,
    );
    if (waiting.length >= MAX_WAITING_OF_A_TENANT) return `${waiting.length} runs of one tenant`;
    const own = waiting.filter(({ record }) => record.actorId === actorId).length;
    return own >= MAX_WAITING_OF_AN_ACTOR ? `${own} runs of one actor` : undefined;
  }

  /**
   * Hands out a run that was woken or cancelled before it began to wait; of an actor's runs that
   * have ended the oldest is dropped.
   */
  private finished({ record, isWoken }: LoggedRun): void {
    if (record.status === 'waiting' && (isWoken || record.cancelled !== undefined))
      this.enqueue(record.runId);
    if (record.status !== 'ended') return;
    const owner = JSON.stringify([record.tenant, record.actorId]);
    this.ended.put(owner, record.runId, record.runId);
  }

  /** A lease ends with the status `running`. */
  private change(run: LoggedRun, change: Partial<RunRecord>): void {
    const { lease, ...record } = { ...run.record, ...change, updatedAt: new Date().toISOString() };
    const { waitingFor = change.finishReason ? undefined : run.record.waitingFor } = change;
    const { waitingFor: _before, ...rest } = record;
    const waits = waitingFor && record.status === 'waiting' && { waitingFor };
    run.record = { ...rest, ...waits, ...(lease && record.status === 'running' && { lease }) };
  }
}

/** The longest delay of a timer; an earlier look at a run does no harm. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

const MAX_ENDED = 1_000;

const MAX_WAITING_OF_AN_ACTOR = 1_000;

const MAX_WAITING_OF_A_TENANT = 10_000;

/** The entries that another store has not taken; each holds a few hundred bytes. */
const MAX_OWED = 10_000;

interface LoggedRun {
  record: RunRecord;
  isWoken: boolean;
  readonly entries: Map<string, RunEntry>;
  readonly events: Map<number, LoopEvent>;
}

/** Tells if a run waits, or is put off: then no one hands it out for now. */
function isIdle({ status, putOffs }: RunRecord): boolean {
  return status === 'waiting' || (status === 'queued' && putOffs !== undefined);
}

/** Tells if a run may be leased: it is queued or waits, or its lease has expired. */
function isFree({ status, lease }: RunRecord): boolean {
  return lease ? leftMs(lease) === 0 : status !== 'ended';
}

function renewed({ lease, epoch }: RunRecord, forMs: number): Pick<RunRecord, 'lease'> {
  return lease ? { lease: nextLease({ ...lease, epoch }, { owner: lease.owner, forMs }) } : {};
}

function alreadyThere({ runId }: NewRun): Error {
  return new Error(`There is a run ${runId} already.`);
}

function appendTo(run: LoggedRun, { entries, dropped = [], events }: RunWrite): void {
  for (const key of dropped) run.entries.delete(key);
  for (const entry of copiesOf(entries)) {
    run.entries.delete(entry.key); // a key that is written again stands where it was written last
    run.entries.set(entry.key, entry);
  }
  for (const event of copiesOf(events)) run.events.set(event.sequence, event);
}

/** Values that are JSON, as a database would give them back: copies that are not shared. */
function copiesOf<Value>(values: readonly Value[]): Value[] {
  return JSON.parse(JSON.stringify(values)) as Value[];
}

type OwedPlace = Pick<OwedEntry, 'at' | 'entryId'>;

/** Orders entries by their times, and those of a millisecond by their ids. */
function inTime(one: OwedPlace, other: OwedPlace): number {
  if (one.at !== other.at) return one.at < other.at ? -1 : 1;
  if (one.entryId === other.entryId) return 0;
  return one.entryId < other.entryId ? -1 : 1;
}
