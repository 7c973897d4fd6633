import { ApprovalStore, type ApprovalAnswer, type ApprovalQuery, type ApprovalRecord } from '@toolloop/core';
import type { RunStore } from './run-store.js';

/** Runs work as one unit with whatever it asks of the database. */
export type Transaction = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** The clocks of processes and their database differ by less: a run that is looked at earlier would find its approval still open. */
const CLOCK_SKEW_MS = 1_000;

/**
 * Wakes the run of an approval as soon as somebody answers it, or when it expires without an answer. An approval or an answer is kept together with its wake-up, or
 * neither is.
 */
export class WakingApprovalStore extends ApprovalStore {
  constructor(
    private readonly approvals: ApprovalStore,
    private readonly runs: RunStore,
    private readonly transaction: Transaction,
  ) {
    super();
  }

  override add(record: ApprovalRecord): Promise<void> {
    return this.transaction(async () => {
      await this.approvals.add(record);
      await this.runs.wakeAt(record.binding.runId, new Date(Date.parse(record.request.expiresAt) + CLOCK_SKEW_MS));
    });
  }

  override find(approvalId: string): Promise<ApprovalRecord | undefined> {
    return this.approvals.find(approvalId);
  }

  override list(query: ApprovalQuery): Promise<readonly ApprovalRecord[]> {
    return this.approvals.list(query);
  }

  override answer(approvalId: string, answer: ApprovalAnswer): Promise<ApprovalRecord | undefined> {
    return this.transaction(async () => {
      const record = await this.approvals.answer(approvalId, answer);
      if (record) await this.runs.wake(record.binding.runId);
      return record;
    });
  }

  override use(approvalId: string): Promise<boolean> {
    return this.approvals.use(approvalId);
  }

  override answered(approvalId: string, signal: AbortSignal): Promise<ApprovalRecord> {
    return this.approvals.answered(approvalId, signal);
  }
}
