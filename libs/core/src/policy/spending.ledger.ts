import type { RunSpending } from '../protocol/policy.js';

/** What one run has used up. Filled as calls are let in, so that parallel ones count as well. */
export class SpendingLedger implements RunSpending {
  readonly calls: RunSpending['calls'][number][];
  tokens = 0;
  usd = 0;
  hasUnknownCost = false;

  constructor(calls: RunSpending['calls'] = []) {
    this.calls = [...calls];
  }
}
