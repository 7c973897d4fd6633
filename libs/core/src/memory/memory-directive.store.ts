import { Injectable, Logger } from '@nestjs/common';
import type { DirectiveStatus } from '@toolloop/protocol';
import { type Observable, Subject } from 'rxjs';
import {
  type AddedDirective,
  type DirectiveChange,
  type DirectiveEvent,
  type DirectiveIntent,
  type DirectiveQuery,
  type DirectiveRecord,
  type DirectiveReference,
  DirectiveStore,
  type DirectiveVersion,
  type StopWork,
  toDirectiveEvent,
} from '../contracts/directive.js';

const MOST_DIRECTIVES = 10_000;
const OPEN = new Set<DirectiveStatus>(['pending', 'performing', 'unknown_outcome']);

/** Keeps directives for as long as the process lives. Past 10,000 of a tenant its oldest that is over goes, and its key with it. */
@Injectable()
export class MemoryDirectiveStore extends DirectiveStore {
  private readonly logger = new Logger(MemoryDirectiveStore.name);
  /** By tenant, then by id, in the order in which they were added. */
  private readonly tenants = new Map<string, Map<string, DirectiveRecord>>();
  /** Ids, by tenant and key. */
  private readonly keys = new Map<string, string>();
  /** Those that somebody has to look at when they are due. */
  private readonly waiting = new Map<string, DirectiveRecord>();
  private readonly changes = new Subject<DirectiveEvent>();
  private readonly workers = new Set<DueWork>();

  override get changes$(): Observable<DirectiveEvent> {
    return this.changes;
  }

  override async add(intent: DirectiveIntent, first?: () => Promise<void>): Promise<AddedDirective> {
    await first?.();
    const { tenant } = intent;
    const known = this.recordOf({ tenant, directiveId: this.keys.get(keyOf(intent)) ?? '' });
    if (known) return { record: known, isNew: false };
    const record: DirectiveRecord = { intent, task: 'perform', status: 'pending', epoch: 0, attempts: 0, ...timed(0) };
    this.keys.set(keyOf(intent), intent.directiveId);
    this.put('requested', record);
    this.forgetOldest(tenant);
    return { record, isNew: true };
  }

  override find(reference: DirectiveReference): Promise<DirectiveRecord | undefined> {
    return Promise.resolve(this.recordOf(reference));
  }

  override list({ tenant, status, subject, actorId, limit = 100, after }: DirectiveQuery): Promise<readonly DirectiveRecord[]> {
    const all = [...(this.tenants.get(tenant)?.values() ?? [])].toReversed();
    const start = after === undefined ? 0 : all.findIndex(({ intent }) => intent.directiveId === after) + 1;
    const found = all
      .slice(start)
      .filter((record) => status === undefined || record.status === status)
      .filter(({ intent }) => subject === undefined || intent.subject === subject)
      .filter(({ intent }) => actorId === undefined || intent.authority.actorId === actorId);
    return Promise.resolve(found.slice(0, limit));
  }

  override claim(reference: DirectiveReference, leaseMs: number): Promise<DirectiveRecord | undefined> {
    const record = this.recordOf(reference);
    if (!record || !isDue(record)) return Promise.resolve(undefined);
    const { epoch, attempts } = record;
    const claimed = { ...record, status: 'performing', epoch: epoch + 1, attempts: attempts + 1, ...timed(leaseMs) } as const;
    return Promise.resolve(this.put('started', claimed));
  }

  override extend(from: DirectiveVersion, leaseMs: number): Promise<boolean> {
    const record = this.recordOf(from);
    if (record?.status !== 'performing' || record.epoch !== from.epoch) return Promise.resolve(false);
    const { updatedAt } = record;
    this.keep({ ...record, ...timed(leaseMs), updatedAt });
    return Promise.resolve(true);
  }

  override change(from: DirectiveVersion, { event, dueInMs, failure, ...change }: DirectiveChange): Promise<DirectiveRecord | undefined> {
    const record = this.recordOf(from);
    if (!record || record.status !== from.status || record.epoch !== from.epoch) return Promise.resolve(undefined);
    const { failure: _former, dueAt: _passed, ...rest } = record;
    return Promise.resolve(this.put(event, { ...rest, ...change, ...(failure && { failure }), ...timed(dueInMs) }));
  }

  override work(perform: (reference: DirectiveReference) => Promise<void>, concurrency: number): Promise<StopWork> {
    const worker = new DueWork(this.waiting, perform, { concurrency, logger: this.logger });
    this.workers.add(worker);
    worker.look();
    return Promise.resolve(async () => {
      this.workers.delete(worker);
      await worker.stop();
    });
  }

  private recordOf({ tenant, directiveId }: DirectiveReference): DirectiveRecord | undefined {
    return this.tenants.get(tenant)?.get(directiveId);
  }

  private put(event: DirectiveEvent['event'], record: DirectiveRecord): DirectiveRecord {
    this.keep(record);
    this.changes.next(toDirectiveEvent(event, record));
    for (const worker of this.workers) worker.look();
    return record;
  }

  private keep(record: DirectiveRecord): void {
    const { tenant, directiveId } = record.intent;
    const records = this.tenants.get(tenant) ?? new Map<string, DirectiveRecord>();
    this.tenants.set(tenant, records.set(directiveId, record));
    if (record.dueAt === undefined) this.waiting.delete(keyOf(record.intent));
    else this.waiting.set(keyOf(record.intent), record);
  }

  /** What is not over yet stays, however many there are. */
  private forgetOldest(tenant: string): void {
    const records = this.tenants.get(tenant);
    if (!records || records.size <= MOST_DIRECTIVES) return;
    const oldest = [...records.values()].find(({ status }) => !OPEN.has(status));
    if (!oldest) return;
    records.delete(oldest.intent.directiveId);
    this.keys.delete(keyOf(oldest.intent));
  }
}

function keyOf({ tenant, key }: Pick<DirectiveIntent, 'tenant' | 'key'>): string {
  return JSON.stringify([tenant, key]);
}

function isDue({ dueAt }: DirectiveRecord): boolean {
  return dueAt !== undefined && Date.parse(dueAt) <= Date.now();
}

function timed(dueInMs: number | undefined): Pick<DirectiveRecord, 'updatedAt' | 'dueAt'> {
  const now = Date.now();
  const updatedAt = new Date(now).toISOString();
  return dueInMs === undefined ? { updatedAt } : { updatedAt, dueAt: new Date(now + dueInMs).toISOString() };
}

const LONGEST_SLEEP_MS = 60_000;
const AGAIN_MS = 1_000;

/** How a worker works. */
interface WorkTerms {
  readonly concurrency: number;
  readonly logger: Logger;
}

/** A directive that is not looked at again before a time, unless it changes. */
interface PutOff {
  readonly record: DirectiveRecord;
  readonly until: number;
}

/** The worker of one process: sleeps until the next directive is due, and never keeps the process alive. */
export class DueWork {
  private readonly inHand = new Map<string, Promise<void>>();
  private readonly putOff = new Map<string, PutOff>();
  private timer: NodeJS.Timeout | undefined;
  private wakesAt = Infinity;
  private hasStopped = false;

  constructor(
    /** Those that have a time, which change as directives do. */
    private readonly known: ReadonlyMap<string, DirectiveRecord>,
    private readonly perform: (reference: DirectiveReference) => Promise<void>,
    private readonly terms: WorkTerms,
  ) {}

  /** Takes what is due as far as there is room, and comes again when something else is. */
  look(): void {
    this.wakeAt(0);
  }

  async stop(): Promise<void> {
    this.hasStopped = true;
    clearTimeout(this.timer);
    await Promise.all(this.inHand.values());
  }

  private takeDue(): void {
    const now = Date.now();
    let next = Infinity;
    for (const [key, record] of this.known) {
      if (this.inHand.size >= this.terms.concurrency) return; // whoever is ready looks again
      if (this.inHand.has(key)) continue;
      const time = this.timeOf(key, record);
      if (time <= now) this.begin(key, record);
      else next = Math.min(next, time);
    }
    this.wakeAt(next);
  }

  /** The earliest of all times that were said. */
  private wakeAt(time: number): void {
    if (this.hasStopped || time >= this.wakesAt) return;
    clearTimeout(this.timer);
    this.wakesAt = time;
    const wake = (): void => {
      this.wakesAt = Infinity;
      this.takeDue();
    };
    this.timer = setTimeout(wake, Math.min(Math.max(0, time - Date.now()), LONGEST_SLEEP_MS)).unref();
  }

  /** Whoever leaves a directive as it was would leave it so again at once. */
  private begin(key: string, record: DirectiveRecord): void {
    const { tenant, directiveId } = record.intent;
    const performing = this.perform({ tenant, directiveId })
      .catch((error: unknown) => this.terms.logger.error(`The directive ${directiveId} could not be processed; it is tried again.`, error))
      .finally(() => {
        this.inHand.delete(key);
        if (this.known.get(key) === record) this.putOff.set(key, { record, until: Date.now() + AGAIN_MS });
        else this.putOff.delete(key);
        this.look();
      });
    this.inHand.set(key, performing);
  }

  private timeOf(key: string, record: DirectiveRecord): number {
    const putOff = this.putOff.get(key);
    const until = putOff?.record === record ? putOff.until : 0;
    return Math.max(record.dueAt === undefined ? Infinity : Date.parse(record.dueAt), until);
  }
}
