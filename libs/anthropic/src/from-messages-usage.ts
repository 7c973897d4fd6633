import type { Usage } from '@toolloop/core';
import { isWireObject, type WireObject } from '@toolloop/wire';

/**
 * What a provider counted; undefined when the value counts nothing. The API counts apart what it read from its cache and what it wrote to it; here
 * both are input.
 */
export function fromMessagesUsage(value: unknown): Usage | undefined {
  if (!isWireObject(value)) return undefined;
  const { input_tokens: fresh, output_tokens: output, cache_creation_input_tokens: written, cache_read_input_tokens: cached } = value;
  if (!isCount(fresh) && !isCount(output)) return undefined;
  const details = value.output_tokens_details;
  const reasoning = isWireObject(details) ? details.thinking_tokens : undefined;
  return {
    inputTokens: toCount(fresh) + toCount(written) + toCount(cached),
    outputTokens: toCount(output),
    ...(isCount(cached) && { cachedInputTokens: cached }),
    ...(isCount(written) && { cacheWriteInputTokens: written }),
    ...(isCount(reasoning) && { reasoningTokens: reasoning }),
  };
}

/** The counts as they stand now: a later count replaces an earlier one, and one that is null or left out does not. */
export function laterCounts(before: WireObject, now: unknown): WireObject {
  if (!isWireObject(now)) return before;
  return { ...before, ...Object.fromEntries(Object.entries(now).filter(([, count]) => count !== null && count !== undefined)) };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

function toCount(value: unknown): number {
  return isCount(value) ? value : 0;
}
