import type { Usage } from '@toolloop/protocol';
import { isWireObject, type WireObject } from '@toolloop/wire';

/** Reads the `usage` of a chat completion; undefined when the value holds no counts. */
export function fromChatUsage(value: unknown): Usage | undefined {
  if (!isWireObject(value)) return undefined;
  const input = toCount(value.prompt_tokens);
  const output = toCount(value.completion_tokens);
  if (input === undefined && output === undefined) return undefined;
  const cached =
    detailIn(value.prompt_tokens_details, 'cached_tokens') ??
    toCount(value.prompt_cache_hit_tokens) ??
    toCount(value.cached_tokens);
  const written =
    detailIn(value.prompt_tokens_details, 'cache_write_tokens') ??
    toCount(value.cache_creation_input_tokens);
  const reasoning = detailIn(value.completion_tokens_details, 'reasoning_tokens');
  return toUsage(
    { inputTokens: input ?? 0, outputTokens: output ?? 0 },
    { cached, written, reasoning, cost: toCost(value) },
  );
}

interface UsageDetails {
  readonly cached: number | undefined;
  readonly written: number | undefined;
  readonly reasoning: number | undefined;
  readonly cost: number | undefined;
}

function toUsage(tokens: Usage, { cached, written, reasoning, cost }: UsageDetails): Usage {
  return {
    ...tokens,
    ...(cached !== undefined && { cachedInputTokens: cached }),
    // Zero is what providers without such a price say of every answer.
    ...(written !== undefined && written > 0 && { cacheWriteInputTokens: written }),
    ...(reasoning !== undefined && { reasoningTokens: reasoning }),
    ...(cost !== undefined && { costUsd: cost }),
  };
}

const TICKS_PER_USD = 10_000_000_000;

/**
 * Reads the cost of an answer in USD: a number at OpenRouter and at Vercel's gateway, an object at
 * Perplexity, ten-billionths of a dollar at xAI. With a key of one's own at the provider behind
 * OpenRouter, that provider's cost comes on top.
 */
function toCost({
  cost,
  is_byok: isByok,
  cost_details: details,
  cost_in_usd_ticks: ticks,
}: WireObject): number | undefined {
  const own = toCount(isWireObject(cost) ? cost.total_cost : cost);
  const upstream = isByok === true ? detailIn(details, 'upstream_inference_cost') : undefined;
  const inTicks = toCount(ticks);
  const usd = own === undefined ? inTicks && inTicks / TICKS_PER_USD : own + (upstream ?? 0);
  return usd !== undefined && usd >= 0 ? usd : undefined;
}

export function detailIn(details: unknown, key: string): number | undefined {
  return isWireObject(details) ? toCount(details[key]) : undefined;
}

export function toCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** Reads the `usage` of a response; undefined when the value holds no counts. */
export function fromResponsesUsage(value: unknown): Usage | undefined {
  if (!isWireObject(value)) return undefined;
  const [input, output] = [toCount(value.input_tokens), toCount(value.output_tokens)];
  if (input === undefined && output === undefined) return undefined;
  const cached = detailIn(value.input_tokens_details, 'cached_tokens');
  const written = detailIn(value.input_tokens_details, 'cache_write_tokens');
  const reasoning = detailIn(value.output_tokens_details, 'reasoning_tokens');
  return toUsage(
    { inputTokens: input ?? 0, outputTokens: output ?? 0 },
    { cached, written, reasoning, cost: toCost(value) },
  );
}
