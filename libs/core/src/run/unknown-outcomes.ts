import type { ToolInvocationRecord } from '@toolloop/protocol';

/**
 * Returns the ids of the calls of which it is unknown whether they took place, each once; of a
 * sub-run those within it.
 */
export function unknownOutcomes(records: readonly ToolInvocationRecord[]): readonly string[] {
  return [...new Set(unknownIn(records))];
}

function unknownIn(records: readonly ToolInvocationRecord[]): readonly string[] {
  return records.flatMap(({ id, error, rehearsal, subRun }) => {
    const within = unknownIn(subRun?.toolCalls ?? []);
    if (within.length > 0) return within;
    return error?.code === 'unknown_outcome' && rehearsal === undefined ? [id] : [];
  });
}

/** Returns the sentence about such calls. Its reader must not make them again unseen. */
export function tellUnknown(ids: readonly string[]): string {
  return `It is unknown whether ${ids.join(', ')} took place: check before you call it again.`;
}
