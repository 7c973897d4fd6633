import type { DirectiveStatus } from '@toolloop/protocol';
import { type Observable, Subject } from 'rxjs';
import {
  acquirableAt,
  type AddedDirective,
  type DirectiveChange,
  type DirectiveEvent,
  type DirectiveHold,
  type DirectiveIntent,
  type DirectiveQuery,
  type DirectiveRecord,
  type DirectiveReference,
  DirectiveStore,
  type DirectiveVersion,
  type LeasedDirective,
  type StopWork,
  toDirectiveEvent,
} from '../contracts/directive.js';
import { isHeldBy, type LeaseRequest, nextLease } from '../contracts/lease.js';
import { Logger } from '../findings/logger.js';
import { BoundedTable } from './bounded-table.js';
import { DueWork, timeOf } from './due-work.js';

/**
 * Keeps directives in memory. Beyond 10,000 of a tenant its oldest finished one is dropped, with
 * its key.
 */
export class MemoryDirectiveStore extends DirectiveStore {
  private readonly logger = new Logger(MemoryDirectiveStore.name);
  /** The directives by tenant and id. Unfinished ones stay, however many there are. */
  private readonly records = new BoundedTable<DirectiveRecord>({
    most: MAX_DIRECTIVES,
    mayGo: ({ status }) => !OPEN.has(status),
    dropped: (_tenant, _id, { intent }) => this.keys.delete(keyOf(intent)),
  });
  /** The ids by tenant and key. */
  private readonly keys = new Map<string, string>();
  /** The directives with a due time. */
  private readonly waiting = new Map<string, DirectiveRecord>();
  private readonly changes = new Subject<DirectiveEvent>();
  private readonly workers = new Set<DueWork>();

  override get changes$(): Observable<DirectiveEvent> {
    return this.changes;
  }

  override async add(
    intent: DirectiveIntent,
    first?: () => Promise<void>,
  ): Promise<AddedDirective> {
    await first?.();
    const { tenant } = intent;
    const known = this.recordOf({ tenant, directiveId: this.keys.get(keyOf(intent)) ?? '' });
    if (known) return { record: known, isNew: false };
    const record: DirectiveRecord = {
      intent,
      task: 'perform',
      status: 'pending',
      epoch: 0,
      attempts: 0,
      ...timed(0),
    };
    this.keys.set(keyOf(intent), intent.directiveId);
    this.put('requested', record);
    return { record, isNew: true };
  }

  override find(reference: DirectiveReference): Promise<DirectiveRecord | undefined> {
    return Promise.resolve(this.recordOf(reference));
  }

  override list({
    tenant,
    status,
    subject,
    actorId,
    limit = 100,
    after,
  }: DirectiveQuery): Promise<readonly DirectiveRecord[]> {
    const all = this.records.values(tenant).toReversed();
    const start =
      after === undefined ? 0 : all.findIndex(({ intent }) => intent.directiveId === after) + 1;
    const found = all
      .slice(start)
      .filter((record) => status === undefined || record.status === status)
      .filter(({ intent }) => subject === undefined || intent.subject === subject)
      .filter(({ intent }) => actorId === undefined || intent.authority.actorId === actorId);
    return Promise.resolve(found.slice(0, limit));
  }

  override acquire(
    reference: DirectiveReference,
    request: LeaseRequest,
  ): Promise<LeasedDirective | undefined> {
    const record = this.recordOf(reference);
    if (!record) return Promise.resolve(undefined);
    if (record.lease?.owner === request.owner)
      return Promise.resolve({ ...record, lease: record.lease });
    if (!isDue(record)) return Promise.resolve(undefined);
    const { dueAt: _passed, ...rest } = record;
    const leased = {
      ...rest,
      status: 'performing',
      attempts: record.attempts + 1,
      ...leasedTo(request, record),
      ...timed(),
    } as const;
    this.put('started', leased);
    return Promise.resolve(leased);
  }

  override renew(hold: DirectiveHold, forMs: number): Promise<boolean> {
    const record = this.recordOf(hold);
    if (!record || !isHeldBy(record.lease, hold)) return Promise.resolve(false);
    this.keep({ ...record, ...leasedTo({ owner: hold.owner, forMs }, record) });
    return Promise.resolve(true);
  }

  override change(
    from: DirectiveVersion,
    change: DirectiveChange,
  ): Promise<DirectiveRecord | undefined> {
    const record = this.recordOf(from);
    if (!record || !isIn(from, record)) return Promise.resolve(undefined);
    const { event, dueInMs, failure, lease, putOffs = 0, ...set } = change;
    const { failure: _former, dueAt: _passed, lease: _ended, putOffs: _counted, ...rest } = record;
    const more = {
      ...(failure && { failure }),
      ...(putOffs > 0 && { putOffs }),
      ...(lease && leasedTo(lease, record)),
    };
    return Promise.resolve(this.put(event, { ...rest, ...set, ...more, ...timed(dueInMs) }));
  }

  override work(
    perform: (reference: DirectiveReference) => Promise<void>,
    concurrency: number,
  ): Promise<StopWork> {
    const worker = new DueWork(this.waiting, perform, { concurrency, logger: this.logger });
    this.workers.add(worker);
    worker.look();
    return Promise.resolve(async () => {
      this.workers.delete(worker);
      await worker.stop();
    });
  }

  private recordOf({ tenant, directiveId }: DirectiveReference): DirectiveRecord | undefined {
    return this.records.get(tenant, directiveId);
  }

  private put(event: DirectiveEvent['event'], record: DirectiveRecord): DirectiveRecord {
    this.keep(record);
    this.changes.next(toDirectiveEvent(event, record));
    for (const worker of this.workers) worker.look();
    return record;
  }

  private keep(record: DirectiveRecord): void {
    const { tenant, directiveId } = record.intent;
    this.records.put(tenant, directiveId, record);
    if (acquirableAt(record) === undefined) this.waiting.delete(keyOf(record.intent));
    else this.waiting.set(keyOf(record.intent), record);
  }
}

const MAX_DIRECTIVES = 10_000;
const OPEN = new Set<DirectiveStatus>(['pending', 'performing', 'unknown_outcome']);

function keyOf({ tenant, key }: Pick<DirectiveIntent, 'tenant' | 'key'>): string {
  return JSON.stringify([tenant, key]);
}

function isIn({ status, epoch, owner }: DirectiveVersion, record: DirectiveRecord): boolean {
  return record.status === status && record.epoch === epoch && record.lease?.owner === owner;
}

function isDue(record: DirectiveRecord): boolean {
  return timeOf(record) <= Date.now();
}

function leasedTo(
  request: LeaseRequest,
  { lease, epoch }: DirectiveRecord,
): Pick<LeasedDirective, 'lease' | 'epoch'> {
  const next = nextLease(lease ?? { epoch }, request);
  return { lease: next, epoch: next.epoch };
}

function timed(dueInMs?: number): Pick<DirectiveRecord, 'updatedAt' | 'dueAt'> {
  const now = Date.now();
  const updatedAt = new Date(now).toISOString();
  return dueInMs === undefined
    ? { updatedAt }
    : { updatedAt, dueAt: new Date(now + dueInMs).toISOString() };
}
