import type { Finding } from '../protocol/errors.js';

/** What a model costs, in USD per million tokens. */
export interface ModelPrice {
  readonly inputPerMillion: number;
  /** Reasoning is output. */
  readonly outputPerMillion: number;
  /** Of input that was read from the provider's prompt cache. @default inputPerMillion */
  readonly cachedInputPerMillion?: number;
  /** Of input that was written to it. @default inputPerMillion */
  readonly cacheWriteInputPerMillion?: number;
}

/** Prices by the provider's name of the model, `gpt-5-mini`, or, where two providers have one of that name, by both: `openai/gpt-5-mini`. */
export type ModelPrices = Readonly<Record<string, ModelPrice>>;

export function priceOf(
  { provider, modelId }: { readonly provider: string; readonly modelId: string },
  prices: ModelPrices,
): ModelPrice | undefined {
  const name = [`${provider}/${modelId}`, modelId].find((key) => Object.hasOwn(prices, key));
  return name === undefined ? undefined : prices[name];
}

/** What is wrong with prices. */
export function priceFindings(prices: ModelPrices, at: string): readonly Finding[] {
  return Object.entries(prices).flatMap(([model, price]: [string, ModelPrice | null]) => {
    if (typeof price !== 'object' || price === null)
      return [{ at, problem: `The price of ${model} is ${String(price)}.`, remedy: `It has ${FIELDS.join(', ')}.` }];
    const { inputPerMillion, outputPerMillion, ...others } = price;
    const given: Readonly<Record<string, unknown>> = { inputPerMillion, outputPerMillion, ...others };
    return Object.entries(given).flatMap(([name, value]) => {
      if (!FIELDS.includes(name))
        return [{ at, problem: `The price of ${model} has no "${name}".`, remedy: `It has ${FIELDS.join(', ')}.` }];
      if (typeof value === 'number' && value >= 0 && Number.isFinite(value)) return [];
      return [
        {
          at,
          problem: `"${name}" of ${model} is ${String(value)}.`,
          remedy: 'Give USD per million tokens, a number that is not negative.',
        },
      ];
    });
  });
}

const FIELDS = ['inputPerMillion', 'outputPerMillion', 'cachedInputPerMillion', 'cacheWriteInputPerMillion'];
