import type { SubRunRecord, ToolFailure, ToolInvocationRecord } from '@toolloop/protocol';
import { hasChangedThings } from './changed-records.js';

/**
 * The call of a run that ended otherwise while it waited: it is not made any more, and neither is
 * what waited within it.
 */
export function closedRecord(
  record: ToolInvocationRecord,
): ToolInvocationRecord & { readonly error: ToolFailure } {
  if (!record.subRun) return { ...record, status: 'failed', error: record.error ?? NOT_MADE };
  const hint = hasChangedThings(record.subRun.toolCalls ?? [])
    ? ' It had changed things by then: do not repeat it; check first.'
    : '';
  const safeMessage = `The run ended before anybody decided, so the sub-run did not continue.${hint}`;
  return {
    ...record,
    status: 'failed',
    error: { code: 'aborted', safeMessage },
    subRun: closedSubRun(record.subRun),
  };
}

const NOT_MADE: ToolFailure = {
  code: 'aborted',
  safeMessage: 'The run ended before anybody decided, so the call was not made.',
};

/** Returns the record of a waiting sub-run that is not resumed. */
export function closedSubRun(subRun: SubRunRecord): SubRunRecord {
  if (subRun.finishReason !== 'waiting') return subRun;
  const toolCalls = subRun.toolCalls?.map((record) =>
    record.status === 'waiting' ? closedRecord(record) : record,
  );
  return { ...subRun, finishReason: 'aborted', ...(toolCalls && { toolCalls }) };
}
