import { priceOf, type ModelPrices } from '../model/model-prices.js';
import { PricedModel } from '../model/priced.js';
import { LanguageModel } from '../protocol/language-model.js';
import type { LoopProfile } from '../protocol/loop-profile.js';
import type { Policy } from '../protocol/policy.js';

/** Who may be asked, and under which budgets. */
export interface CostSurroundings {
  readonly policies: readonly Policy[];
  readonly models: readonly LoopProfile['model'][];
  readonly prices: ModelPrices | undefined;
}

/** What to say when the application starts, where a budget is in USD and a model has no price: whether a provider reports its costs shows only as it answers. */
export function unpricedWarning({ policies, models, prices = {} }: CostSurroundings): string | undefined {
  if (!policies.some(({ runBudgets = [] }) => runBudgets.some(({ usd }) => usd !== undefined))) return undefined;
  const given = models.filter((model) => model instanceof LanguageModel);
  const unpriced = given.filter((model) => !(model instanceof PricedModel) && !priceOf(model, prices));
  if (unpriced.length === 0) return undefined;
  const names = [...new Set(unpriced.map(({ provider, modelId }) => `${provider}/${modelId}`))].join(', ');
  return `A budget is in USD, and there is no price for ${names}. Unless its answers report their cost, calls under that budget are refused. Give ToolLoopModule.forRoot({ prices }).`;
}
