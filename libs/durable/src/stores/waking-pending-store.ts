import {
  type DueNotice,
  type LeaseRequest,
  type NextNotice,
  type Pending,
  type PendingAnswer,
  type PendingQuery,
  PendingStore,
  type RunLog,
} from '@toolloop/core/stores';
import type { Transaction } from './sql-pending-store.js';

/**
 * Wakes the run that asked as soon as a person answers, or when the time for it is over. A question
 * or an answer is kept together with its wake-up, or neither is.
 */
export class WakingPendingStore extends PendingStore {
  constructor(
    private readonly store: PendingStore,
    private readonly runs: RunLog,
    private readonly transaction: Transaction,
  ) {
    super();
  }

  override add(record: Pending): Promise<void> {
    return this.transaction(async () => {
      await this.store.add(record);
      await this.runs.wakeAt(
        record.binding.runId,
        new Date(Date.parse(record.expiresAt) + CLOCK_SKEW_MS),
      );
    });
  }

  override find(id: string): Promise<Pending | undefined> {
    return this.store.find(id);
  }

  override list(query: PendingQuery): Promise<readonly Pending[]> {
    return this.store.list(query);
  }

  override claim(id: string, request: LeaseRequest): Promise<boolean> {
    return this.store.claim(id, request);
  }

  override answer(id: string, answer: PendingAnswer): Promise<Pending | undefined> {
    return this.transaction(async () => {
      const record = await this.store.answer(id, answer);
      if (record) await this.runs.wake(record.binding.runId);
      return record;
    });
  }

  override use(id: string): Promise<boolean> {
    return this.store.use(id);
  }

  override due(request: LeaseRequest, most: number): Promise<readonly DueNotice[]> {
    return this.store.due(request, most);
  }

  override reschedule(id: string, owner: string, next?: NextNotice): Promise<void> {
    return this.store.reschedule(id, owner, next);
  }

  override answered(id: string, signal: AbortSignal): Promise<Pending> {
    return this.store.answered(id, signal);
  }
}

/**
 * The clocks of processes and their database differ by less: a run that is looked at earlier would
 * find its question still open.
 */
const CLOCK_SKEW_MS = 1_000;
