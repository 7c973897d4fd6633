/** Tokens a run used, as the provider counts them. */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Of the input tokens, those read from the provider's prompt cache. */
  readonly cachedInputTokens?: number;
  /** Of the output tokens, those spent on reasoning. */
  readonly reasoningTokens?: number;
}

export const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0 };

export function addUsage(one: Usage, other: Usage): Usage {
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    cachedInputTokens: (one.cachedInputTokens ?? 0) + (other.cachedInputTokens ?? 0),
    reasoningTokens: (one.reasoningTokens ?? 0) + (other.reasoningTokens ?? 0),
  };
}
