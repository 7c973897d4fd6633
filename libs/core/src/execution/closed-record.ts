import type { SubRunRecord } from '../protocol/sub-run.js';
import type { ToolFailure } from '../protocol/tool-error.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';
import { hasChangedThings } from './sub-run.method.js';

const NOT_MADE: ToolFailure = { code: 'aborted', safeMessage: 'The run ended before anybody decided, so the call was not made.' };

/** The call of a run that ended otherwise while it waited: it is not made any more, and neither is what waited within it. */
export function closedRecord(record: ToolInvocationRecord): ToolInvocationRecord & { readonly error: ToolFailure } {
  if (!record.subRun) return { ...record, status: 'failed', error: record.error ?? NOT_MADE };
  const hint = hasChangedThings(record.subRun.toolCalls ?? []) ? ' It had changed things by then: do not repeat it; check first.' : '';
  const safeMessage = `The run ended before anybody decided, so the sub-run did not continue.${hint}`;
  return { ...record, status: 'failed', error: { code: 'aborted', safeMessage }, subRun: closedSubRun(record.subRun) };
}

/** What a sub-run that waited came to where it does not go on. */
export function closedSubRun(subRun: SubRunRecord): SubRunRecord {
  if (subRun.finishReason !== 'waiting') return subRun;
  const toolCalls = subRun.toolCalls?.map((record) => (record.status === 'waiting' ? closedRecord(record) : record));
  return { ...subRun, finishReason: 'aborted', ...(toolCalls && { toolCalls }) };
}
