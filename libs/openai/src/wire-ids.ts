import { createHash } from 'node:crypto';
import type { ToolCall } from '@toolloop/core';

const NONE: ReadonlyMap<string, string> = new Map();

/**
 * The ids a provider knows the calls of one message by, where they differ from ours. Where it gave two calls the same id, the second goes by ours:
 * a result has to find its call. OpenAI takes ids of at most so many characters, and vLLM for one makes longer ones.
 */
export function wireIdsOf(calls: readonly ToolCall[] | undefined, most: number): ReadonlyMap<string, string> {
  if (calls === undefined || calls.every((call) => call.providerCallId === undefined && call.toolCallId.length <= most)) return NONE;
  const ids = new Map<string, string>();
  const taken = new Set<string>();
  for (const { toolCallId, providerCallId } of calls) {
    const id = shortened(providerCallId === undefined || taken.has(providerCallId) ? toolCallId : providerCallId, most);
    taken.add(id);
    ids.set(toolCallId, id);
  }
  return ids;
}

function shortened(id: string, most: number): string {
  return id.length <= most ? id : `call_${createHash('sha256').update(id).digest('hex').slice(0, 32)}`;
}
