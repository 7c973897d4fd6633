import { ConfigurationError } from '../protocol/errors.js';
import { LanguageModel, type ModelCapabilities, type ModelEvent, type ModelRequest } from '../protocol/language-model.js';
import type { Usage } from '../protocol/usage.js';
import { priceFindings, priceOf, type ModelPrice, type ModelPrices } from './model-prices.js';
import { assertWrapper } from './wrapper-findings.js';

/**
 * Reckons what each answer of a model cost, in `usage.costUsd`, where the provider does not say so itself. A module does this for all its models:
 * `ToolLoopModule.forRoot({ prices })`, whose prices fill what a model's own leave open. Throws a `ConfigurationError` for prices that are none.
 */
export function priced(model: LanguageModel, prices: ModelPrices): LanguageModel {
  assertWrapper('priced', [model], {}, {});
  const findings = priceFindings(prices, 'priced()');
  if (findings.length > 0) throw new ConfigurationError(findings);
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

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    let price = priceOf(this.model, this.prices);
    for await (const event of this.model.stream(request, signal)) {
      if (event.type === 'model') price = priceOf(event, this.prices);
      yield event.type === 'usage' ? { type: 'usage', usage: withCost(event.usage, price) } : event;
    }
  }
}

function withCost(usage: Usage, price: ModelPrice | undefined): Usage {
  if (price === undefined || usage.costUsd !== undefined) return usage;
  const { inputTokens, outputTokens, cachedInputTokens: cached = 0, cacheWriteInputTokens: written = 0 } = usage;
  const { inputPerMillion, outputPerMillion, cachedInputPerMillion = inputPerMillion, cacheWriteInputPerMillion = inputPerMillion } = price;
  const fresh = Math.max(0, inputTokens - cached - written);
  const micro =
    fresh * inputPerMillion + cached * cachedInputPerMillion + written * cacheWriteInputPerMillion + outputTokens * outputPerMillion;
  return { ...usage, costUsd: micro / 1_000_000 };
}
