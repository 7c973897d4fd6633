import {
  type AttemptControl,
  LanguageModel,
  type ModelCapabilities,
  type ModelEvent,
  type ModelRequest,
  type Usage,
} from '@toolloop/protocol';
import { defineOptions, namedOptions, needed, type OptionRule } from '../findings/options.js';
import { assertWrapper } from './wrappers.js';

/**
 * Adds the cost of each answer of a model to `usage.costUsd`, unless the provider reports it.
 * `ToolLoopModule.forRoot({ prices })` does this for all models of an application; its prices apply
 * to models that have none of their own.
 *
 * @throws ConfigurationError for wrong prices
 * @example
 * priced(openai('gpt-5-mini'), { 'gpt-5-mini': { inputPerMillion: 0.25, outputPerMillion: 2 } });
 */
export function priced(model: LanguageModel, prices: ModelPrices): LanguageModel {
  assertWrapper('priced', [model], { prices }, OPTIONS);
  return new PricedModel(model, prices);
}

/** A model whose answers have a cost. */
export class PricedModel extends LanguageModel {
  readonly provider: string;
  readonly modelId: string;
  override readonly capabilities: ModelCapabilities;

  constructor(
    private readonly model: LanguageModel,
    private readonly prices: ModelPrices,
  ) {
    super();
    ({ provider: this.provider, modelId: this.modelId, capabilities: this.capabilities } = model);
  }

  override get controls(): AttemptControl {
    return this.model.controls;
  }

  async *stream(
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, void, undefined> {
    let price = priceOf(this.model, this.prices);
    for await (const event of this.model.stream(request, signal)) {
      if (event.type === 'model') price = priceOf(event, this.prices);
      yield event.type === 'usage' ? { type: 'usage', usage: withCost(event.usage, price) } : event;
    }
  }
}

function withCost(usage: Usage, price: ModelPrice | undefined): Usage {
  if (price === undefined || usage.costUsd !== undefined) return usage;
  const {
    inputTokens,
    outputTokens,
    cachedInputTokens: cached = 0,
    cacheWriteInputTokens: written = 0,
  } = usage;
  const {
    inputPerMillion,
    outputPerMillion,
    cachedInputPerMillion = inputPerMillion,
    cacheWriteInputPerMillion = inputPerMillion,
  } = price;
  const fresh = Math.max(0, inputTokens - cached - written);
  const micro =
    fresh * inputPerMillion +
    cached * cachedInputPerMillion +
    written * cacheWriteInputPerMillion +
    outputTokens * outputPerMillion;
  return { ...usage, costUsd: micro / 1_000_000 };
}

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

/**
 * Prices by the provider's name of the model, `gpt-5-mini`, or, where two providers have one of
 * that name, by both: `openai/gpt-5-mini`.
 */
export type ModelPrices = Readonly<Record<string, ModelPrice>>;

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

const OPTIONS = defineOptions<{ readonly prices: ModelPrices }>({ prices: needed(PRICES) });
