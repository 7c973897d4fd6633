import { namedOptions, needed } from '../findings/option-rules.js';
import { defineOptions, type OptionRule } from '../findings/options.js';

/**
 * Prices by the provider's name of the model, `gpt-5-mini`, or, where two providers have one of
 * that name, by both: `openai/gpt-5-mini`.
 */
export type ModelPrices = Readonly<Record<string, ModelPrice>>;

/** The price of a model, in USD per million tokens. */
export interface ModelPrice {
  readonly inputPerMillion: number;
  /** The price of output, reasoning included. */
  readonly outputPerMillion: number;
  /** The price of input that was read from the provider's prompt cache. @default inputPerMillion */
  readonly cachedInputPerMillion?: number;
  /** The price of input that was written to the cache. @default inputPerMillion */
  readonly cacheWriteInputPerMillion?: number;
}

export function priceOf(
  { provider, modelId }: { readonly provider: string; readonly modelId: string },
  prices: ModelPrices,
): ModelPrice | undefined {
  const name = [`${provider}/${modelId}`, modelId].find((key) => Object.hasOwn(prices, key));
  return name === undefined ? undefined : prices[name];
}

const PER_MILLION: OptionRule<number> = {
  wanted: 'USD per million tokens, a number that is not negative',
  accept: (value) => typeof value === 'number' && value >= 0 && Number.isFinite(value),
};

const PRICE = defineOptions<ModelPrice>(
  {
    inputPerMillion: needed(PER_MILLION),
    outputPerMillion: needed(PER_MILLION),
    cachedInputPerMillion: PER_MILLION,
    cacheWriteInputPerMillion: PER_MILLION,
  },
  { wording: { unknown: 'There is no price "*".', option: 'The price "*"' } },
);

/** Prices by the name of a model. */
export const PRICES: OptionRule<ModelPrices> = namedOptions(PRICE, 'prices');
