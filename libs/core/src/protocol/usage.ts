/** Tokens a run used, as the provider counts them. */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Of the input tokens, those read from the provider's prompt cache. */
  readonly cachedInputTokens?: number;
  /** Of the input tokens, those written to it, which some providers charge more for. */
  readonly cacheWriteInputTokens?: number;
  /** Of the output tokens, those spent on reasoning. */
  readonly reasoningTokens?: number;
  /** What it cost, where the model reports that or `prices` say so; of a sum, what is known. */
  readonly costUsd?: number;
}

export const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0 };

export function addUsage(one: Usage, other: Usage): Usage {
  const isPriced = one.costUsd !== undefined || other.costUsd !== undefined;
  const isWritten = one.cacheWriteInputTokens !== undefined || other.cacheWriteInputTokens !== undefined;
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    cachedInputTokens: (one.cachedInputTokens ?? 0) + (other.cachedInputTokens ?? 0),
    ...(isWritten && { cacheWriteInputTokens: (one.cacheWriteInputTokens ?? 0) + (other.cacheWriteInputTokens ?? 0) }),
    reasoningTokens: (one.reasoningTokens ?? 0) + (other.reasoningTokens ?? 0),
    ...(isPriced && { costUsd: (one.costUsd ?? 0) + (other.costUsd ?? 0) }),
  };
}
