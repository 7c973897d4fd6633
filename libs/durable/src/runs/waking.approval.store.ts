import { ApprovalStore, type ApprovalAnswer, type ApprovalQuery, type ApprovalRecord } from '@toolloop/core';
import type { RunStore } from './run-store.js';

/** Runs work as one unit with whatever it asks of the database. */
export type Transaction = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** Has the run of an approval gone on with as soon as it is answered: the answer and the wake-up are kept together, or neither is. */
export class WakingApprovalStore extends ApprovalStore {
  constructor(
    private readonly approvals: ApprovalStore,
    private readonly runs: RunStore,
    private readonly transaction: Transaction,
  ) {
    super();
  }

  override add(record: ApprovalRecord): Promise<void> {
    return this.approvals.add(record);
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
