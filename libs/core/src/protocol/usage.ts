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
  /** Set of one answer that took several attempts (`fallback`, `retried`), where `costUsd` lacks what one of them cost. */
  readonly hasUnknownCost?: true;
}

export const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0 };

/** What was used between two sums of one run. */
export function usageSince(before: Usage, now: Usage): Usage {
  const written = differenceOf(now.cacheWriteInputTokens, before.cacheWriteInputTokens);
  const costUsd = differenceOf(now.costUsd, before.costUsd);
  return {
    inputTokens: now.inputTokens - before.inputTokens,
    outputTokens: now.outputTokens - before.outputTokens,
    cachedInputTokens: differenceOf(now.cachedInputTokens, before.cachedInputTokens) ?? 0,
    ...(written !== undefined && { cacheWriteInputTokens: written }),
    reasoningTokens: differenceOf(now.reasoningTokens, before.reasoningTokens) ?? 0,
    ...(costUsd !== undefined && { costUsd }),
  };
}

/** A sum never loses a field, so what is not there now was not there before. */
function differenceOf(now: number | undefined, before = 0): number | undefined {
  return now === undefined ? undefined : now - before;
}

export function addUsage(one: Usage, other: Usage): Usage {
  const written = sumOf(one.cacheWriteInputTokens, other.cacheWriteInputTokens);
  const costUsd = sumOf(one.costUsd, other.costUsd);
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    cachedInputTokens: sumOf(one.cachedInputTokens, other.cachedInputTokens) ?? 0,
    ...(written !== undefined && { cacheWriteInputTokens: written }),
    reasoningTokens: sumOf(one.reasoningTokens, other.reasoningTokens) ?? 0,
    ...(costUsd !== undefined && { costUsd }),
  };
}

function sumOf(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined && other === undefined ? undefined : (one ?? 0) + (other ?? 0);
}
