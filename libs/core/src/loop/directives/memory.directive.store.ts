import { Injectable, Logger } from '@nestjs/common';
import { Subject, type Observable } from 'rxjs';
import {
  DirectiveStore,
  toDirectiveEvent,
  type AddedDirective,
  type DirectiveChange,
  type DirectiveEvent,
  type DirectiveIntent,
  type DirectiveQuery,
  type DirectiveRecord,
  type DirectiveReference,
  type DirectiveStatus,
  type DirectiveVersion,
  type StopWork,
} from '../../protocol/directive.js';
import { DueWork } from './due.work.js';

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
