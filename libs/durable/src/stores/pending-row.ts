import type { Pending, PendingAnswer } from '@toolloop/core/stores';

/** A question as its table has it: the answer stands beside the record. */
export interface PendingRow {
  readonly id: string;
  readonly record: Pending;
  readonly answer: PendingAnswer | null;
  readonly used_at: Date | null;
}

export const COLUMNS = 'id, record, answer, used_at';

export function recordOf({ record, answer, used_at: usedAt }: PendingRow): Pending {
  return { ...record, ...(answer && { answer }), ...(usedAt && { usedAt: usedAt.toISOString() }) };
}
