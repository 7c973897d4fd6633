import type { RunSpending } from '../protocol/policy.js';

/** What one run has used up. Filled as calls are let in, so that parallel ones count as well. */
export class SpendingLedger implements RunSpending {
  readonly calls: RunSpending['calls'][number][];
  tokens = 0;
  usd = 0;
  hasUnknownCost = false;
  private taken: number;

  constructor(calls: RunSpending['calls'] = []) {
    this.calls = [...calls];
    this.taken = calls.length;
  }

  /** The calls that were let in since they were taken last, by whoever shares the ledger: each of them is written down once. */
  takeNew(): RunSpending['calls'] {
    const added = this.calls.slice(this.taken);
    this.taken = this.calls.length;
    return added;
  }

  /** What was written down already stays: it counts too much rather than too little. */
  takeBack(call: RunSpending['calls'][number]): void {
    const index = this.calls.indexOf(call, this.taken);
    if (index !== -1) this.calls.splice(index, 1);
  }
}
