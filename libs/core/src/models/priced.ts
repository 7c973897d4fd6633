import {
  type LanguageModel,
  type ModelEvent,
  type ModelRequest,
  type Usage,
} from '@toolloop/protocol';
import { needed } from '../findings/option-rules.js';
import { defineOptions } from '../findings/options.js';
import { type ModelPrice, type ModelPrices, priceOf, PRICES } from './model-prices.js';
import { WrappedModel } from './wrapped-model.js';
import { assertWrapper } from './wrapper-findings.js';

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
export class PricedModel extends WrappedModel {
  constructor(
    model: LanguageModel,
    private readonly prices: ModelPrices,
  ) {
    super(model);
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

const OPTIONS = defineOptions<{ readonly prices: ModelPrices }>({ prices: needed(PRICES) });
