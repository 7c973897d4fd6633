import type { ToolCall } from '@toolloop/core';

const NONE: ReadonlyMap<string, string> = new Map();

/**
 * The ids a provider knows the calls of one message by, where they differ from ours. Where it gave two calls the same id, the second goes by ours:
 * a result has to find its call.
 */
export function wireIdsOf(calls: readonly ToolCall[] | undefined): ReadonlyMap<string, string> {
  if (calls === undefined || calls.every(({ providerCallId }) => providerCallId === undefined)) return NONE;
  const ids = new Map<string, string>();
  const taken = new Set<string>();
  for (const { toolCallId, providerCallId } of calls) {
    const id = providerCallId === undefined || taken.has(providerCallId) ? toolCallId : providerCallId;
    taken.add(id);
    ids.set(toolCallId, id);
  }
  return ids;
}
