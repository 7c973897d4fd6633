import type { ToolInvocationRecord } from '@toolloop/protocol';
import type { ReadCall } from '../../call/call.js';

/**
 * Returns the records of the calls, those of sub-runs included, that had an effect or may have had
 * one.
 */
export function changedRecords(
  records: readonly ToolInvocationRecord[],
): readonly ToolInvocationRecord[] {
  return records.flatMap((record) => {
    const { effect, status, error, subRun, madeBefore } = record;
    if (subRun) return changedRecords(subRun.toolCalls ?? []);
    if (effect === 'read_only' || madeBefore !== undefined) return [];
    return status === 'succeeded' ||
      error?.code === 'unknown_outcome' ||
      error?.code === 'invalid_output'
      ? record
      : [];
  });
}

/** Returns whether a call whose method answered had an effect: a sub-run has those of its calls. */
export function hadEffect({ tool: { spec, subRun: isSubRun }, subRun }: ReadCall): boolean {
  return isSubRun ? hasChangedThings(subRun?.toolCalls ?? []) : spec.effect !== 'read_only';
}

/** Returns whether a call that is no read had its effect, or may have had it. */
export function hasChangedThings(records: readonly ToolInvocationRecord[]): boolean {
  return changedRecords(records).length > 0;
}
