import { LanguageModel } from '@toolloop/protocol';
import type { LoopProfile } from '../contracts/loop-request.js';
import { policyList } from '../contracts/policy.js';
import { priceOf } from '../models/model-prices.js';
import { PricedModel } from '../models/priced.js';
import type { ToolLoopOptions } from './loop-options.js';

/**
 * Returns a warning for the start of the application if a budget or a limit is in USD and a model
 * has no price: whether a provider reports its costs shows only in its answers.
 */
export function unpricedWarning({ application, profiles }: CostSurroundings): string | undefined {
  const { model: shared, models: named = {}, prices = {}, policy, limits } = application;
  const policies = [...policyList(policy), ...profiles.flatMap((profile) => profile.policy ?? [])];
  const hasBudget = policies.some(({ runBudgets = [] }) =>
    runBudgets.some(({ usd }) => usd !== undefined),
  );
  const hasLimit = [limits, ...profiles.map((profile) => profile.limits)].some(
    (own) => own?.usd !== undefined && own.usd < Infinity,
  );
  if (!hasBudget && !hasLimit) return undefined;
  const models = [shared, ...Object.values(named), ...profiles.map(({ model }) => model)];
  const given = models.filter((model) => model instanceof LanguageModel);
  const unpriced = given.filter(
    (model) => !(model instanceof PricedModel) && !priceOf(model, prices),
  );
  if (unpriced.length === 0) return undefined;
  const names = [
    ...new Set(unpriced.map(({ provider, modelId }) => `${provider}/${modelId}`)),
  ].join(', ');
  return `A budget or limit is in USD, and there is no price for ${names}. Unless its answers report their cost, calls under the budget are refused, and runs under the limit end. Give ToolLoopModule.forRoot({ prices }).`;
}

/** The models that may be asked, and the budgets and limits on their cost. */
export interface CostSurroundings {
  readonly application: Pick<ToolLoopOptions, 'model' | 'models' | 'prices' | 'policy' | 'limits'>;
  /** Its loops and sub-runs. */
  readonly profiles: readonly Pick<LoopProfile, 'model' | 'policy' | 'limits'>[];
}
