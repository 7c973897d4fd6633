import { Subject, filter, firstValueFrom, fromEvent, map, merge, take } from 'rxjs';
import { type Lease, type LeaseRequest, leftMs, nextLease } from '../contracts/lease.js';
import type { DueNotice, NextNotice } from '../contracts/notice.js';
import {
  isUsable,
  type Pending,
  type PendingAnswer,
  type PendingQuery,
  PendingStore,
} from '../contracts/pending.js';
import { BoundedTable } from './bounded-table.js';

/**
 * Keeps what runs ask of people for as long as the process lives. Beyond 10,000 of a tenant its
 * oldest one that is answered or has expired is dropped; where all of them wait for a person, no
 * further one is accepted.
 */
export class MemoryPendingStore extends PendingStore {
  private readonly records = new Map<string, Pending>();
  /** The ids by tenant. */
  private readonly ids = new BoundedTable<string>({
    most: MAX_PENDING,
    mayGo: (id) => this.isOver(id),
    dropped: (_tenant, id) => this.forget(id),
  });
  /** The leases of those who are deciding. */
  private readonly claims = new Map<string, Lease>();
  private readonly notices = new Map<string, KeptNotice>();
  private readonly answers$ = new Subject<Pending>();

  override add(record: Pending): Promise<void> {
    const { tenant } = record.binding;
    if (this.records.has(record.id)) return Promise.resolve();
    if (!this.ids.makeRoom(tenant))
      return Promise.reject(
        new Error(
          `${MAX_PENDING} questions of one tenant wait in memory, and no more are accepted. Bind a durable PendingStore.`,
        ),
      );
    this.records.set(record.id, record);
    this.ids.put(tenant, record.id, record.id);
    if (record.noticeAt !== undefined)
      this.notices.set(record.id, {
        at: record.noticeAt,
        attempts: 0,
        dueAt: Date.parse(record.noticeAt),
      });
    return Promise.resolve();
  }

  private isOver(id: string): boolean {
    const record = this.records.get(id);
    return !record || record.answer !== undefined || Date.parse(record.expiresAt) <= Date.now();
  }

  private forget(id: string): void {
    this.records.delete(id);
    this.claims.delete(id);
    this.notices.delete(id);
  }

  override find(id: string): Promise<Pending | undefined> {
    return Promise.resolve(this.records.get(id));
  }

  override list({
    tenant,
    runId,
    conversation,
    pending = false,
    limit = 100,
    after,
  }: PendingQuery): Promise<readonly Pending[]> {
    const found = [...this.records.values()]
      .filter(
        ({ binding }) =>
          binding.tenant === tenant && (runId === undefined || binding.runId === runId),
      )
      .filter((record) => conversation === undefined || record.conversation === conversation)
      .filter(({ answer }) => !pending || !answer);
    const start = after === undefined ? 0 : found.findIndex(({ id }) => id === after) + 1;
    return Promise.resolve(found.slice(start, start + limit));
  }

  override claim(id: string, request: LeaseRequest): Promise<boolean> {
    const record = this.records.get(id);
    const held = this.claims.get(id);
    const isFree = !held || held.owner === request.owner || leftMs(held) === 0;
    if (!record || record.answer || !isFree) return Promise.resolve(false);
    if (request.forMs > 0) this.claims.set(id, nextLease(held ?? {}, request));
    else this.claims.delete(id);
    return Promise.resolve(true);
  }

  override answer(id: string, answer: PendingAnswer): Promise<Pending | undefined> {
    const record = this.records.get(id);
    if (!record || record.answer) return Promise.resolve(undefined);
    this.claims.delete(id);
    this.notices.delete(id);
    const answered = { ...record, answer };
    this.records.set(id, answered);
    this.answers$.next(answered);
    return Promise.resolve(answered);
  }

  override use(id: string): Promise<boolean> {
    const record = this.records.get(id);
    if (!record?.answer || !isUsable(record.answer) || record.usedAt !== undefined)
      return Promise.resolve(false);
    this.records.set(id, { ...record, usedAt: new Date().toISOString() });
    return Promise.resolve(true);
  }

  override due(request: LeaseRequest, most: number): Promise<readonly DueNotice[]> {
    const now = Date.now();
    const due = [...this.notices].filter(
      ([, notice]) => notice.dueAt <= now && !(notice.lease && leftMs(notice.lease) > 0),
    );
    const leased = due.toSorted(([, one], [, other]) => one.dueAt - other.dueAt).slice(0, most);
    return Promise.resolve(
      leased.flatMap(([id, notice]) => {
        const record = this.records.get(id);
        this.notices.set(id, { ...notice, lease: nextLease(notice.lease ?? {}, request) });
        return record ? [{ record, at: notice.at, attempts: notice.attempts }] : [];
      }),
    );
  }

  override reschedule(id: string, owner: string, next?: NextNotice): Promise<void> {
    if (this.notices.get(id)?.lease?.owner !== owner) return Promise.resolve();
    if (next)
      this.notices.set(id, {
        at: next.at,
        attempts: next.attempts,
        dueAt: Date.now() + next.dueInMs,
      });
    else this.notices.delete(id);
    return Promise.resolve();
  }

  override async answered(id: string, signal: AbortSignal): Promise<Pending> {
    signal.throwIfAborted();
    const known = this.records.get(id);
    if (known?.answer) return known;
    const aborted$ = fromEvent(signal, 'abort').pipe(
      map((): never => {
        throw signal.reason;
      }),
    );
    const answered$ = this.answers$.pipe(filter(({ id: answeredId }) => answeredId === id));
    return firstValueFrom(merge(answered$, aborted$).pipe(take(1)));
  }
}

const MAX_PENDING = 10_000;

/** A notice with the time of its next attempt, and the lease of who tells it. */
interface KeptNotice extends Pick<DueNotice, 'at' | 'attempts'> {
  readonly dueAt: number;
  readonly lease?: Lease;
}
