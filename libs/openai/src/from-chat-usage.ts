import type { Usage } from '@toolloop/core';
import { isWireObject } from '@toolloop/wire';

/** What a provider counted; undefined when the value counts nothing. */
export function fromChatUsage(value: unknown): Usage | undefined {
  if (!isWireObject(value)) return undefined;
  const input = toCount(value.prompt_tokens);
  const output = toCount(value.completion_tokens);
  if (input === undefined && output === undefined) return undefined;
  const cached =
    detailIn(value.prompt_tokens_details, 'cached_tokens') ?? toCount(value.prompt_cache_hit_tokens) ?? toCount(value.cached_tokens);
  const reasoning = detailIn(value.completion_tokens_details, 'reasoning_tokens');
  return {
    inputTokens: input ?? 0,
    outputTokens: output ?? 0,
    ...(cached !== undefined && { cachedInputTokens: cached }),
    ...(reasoning !== undefined && { reasoningTokens: reasoning }),
  };
}

export function detailIn(details: unknown, key: string): number | undefined {
  return isWireObject(details) ? toCount(details[key]) : undefined;
}

export function toCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}
