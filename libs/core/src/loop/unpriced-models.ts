import { priceOf } from '../model/model-prices.js';
import { PricedModel } from '../model/priced.js';
import { listOf } from '../policy/data.policy.engine.js';
import { LanguageModel } from '../protocol/language-model.js';
import type { LoopProfile } from '../protocol/loop-profile.js';
import type { ToolLoopOptions } from './tool-loop.options.js';

/** Who may be asked, and under which budgets and limits. */
export interface CostSurroundings {
  readonly application: Pick<ToolLoopOptions, 'model' | 'models' | 'prices' | 'policy' | 'limits'>;
  /** Its loops and sub-runs. */
  readonly profiles: readonly Pick<LoopProfile, 'model' | 'policy' | 'limits'>[];
}

/**
 * What to say when the application starts, where a budget or a limit is in USD and a model has no price: whether a provider reports its costs shows only as it
 * answers.
 */
export function unpricedWarning({ application, profiles }: CostSurroundings): string | undefined {
  const { model: shared, models: named = {}, prices = {}, policy, limits } = application;
  const policies = [...listOf(policy), ...profiles.flatMap((profile) => profile.policy ?? [])];
  const hasBudget = policies.some(({ runBudgets = [] }) => runBudgets.some(({ usd }) => usd !== undefined));
  const hasLimit = [limits, ...profiles.map((profile) => profile.limits)].some((own) => own?.usd !== undefined && own.usd < Infinity);
  if (!hasBudget && !hasLimit) return undefined;
  const models = [shared, ...Object.values(named), ...profiles.map(({ model }) => model)];
  const given = models.filter((model) => model instanceof LanguageModel);
  const unpriced = given.filter((model) => !(model instanceof PricedModel) && !priceOf(model, prices));
  if (unpriced.length === 0) return undefined;
  const names = [...new Set(unpriced.map(({ provider, modelId }) => `${provider}/${modelId}`))].join(', ');
  return `A budget or limit is in USD, and there is no price for ${names}. Unless its answers report their cost, calls under the budget are refused, and runs under the limit end. Give ToolLoopModule.forRoot({ prices }).`;
}
