import type { Usage } from '@toolloop/core';
import { isWireObject } from '@toolloop/wire';
import { detailIn, toCount } from './from-chat-usage.js';

/** What a provider counted; undefined when the value counts nothing. */
export function fromResponsesUsage(value: unknown): Usage | undefined {
  if (!isWireObject(value)) return undefined;
  const [input, output] = [toCount(value.input_tokens), toCount(value.output_tokens)];
  if (input === undefined && output === undefined) return undefined;
  const cached = detailIn(value.input_tokens_details, 'cached_tokens');
  const reasoning = detailIn(value.output_tokens_details, 'reasoning_tokens');
  return {
    inputTokens: input ?? 0,
    outputTokens: output ?? 0,
    ...(cached !== undefined && { cachedInputTokens: cached }),
    ...(reasoning !== undefined && { reasoningTokens: reasoning }),
  };
}
