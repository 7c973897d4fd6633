import type { ApprovalAnswer, ApprovalRecord } from '@toolloop/core';

/** An approval as its table has it. */
export interface ApprovalRow {
  readonly approval_id: string;
  readonly record: Omit<ApprovalRecord, 'answer' | 'isUsed'>;
  readonly answer: ApprovalAnswer | null;
  readonly is_used: boolean;
}

export function recordOf({ record, answer, is_used: isUsed }: ApprovalRow): ApprovalRecord {
  return { ...record, ...(answer && { answer }), isUsed };
}
