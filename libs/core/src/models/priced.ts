import {
  ConfigurationError,
  type Finding,
  LanguageModel,
  type ModelCapabilities,
  type ModelEvent,
  type ModelRequest,
  type Usage,
} from '@toolloop/protocol';
import { assertWrapper } from './wrappers.js';

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
