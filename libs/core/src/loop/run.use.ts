import type { SpendingLedger } from '../policy/spending.ledger.js';
import type { Limits } from '../protocol/limits.js';
import { NO_USAGE, addUsage, usageSince, type Usage } from '../protocol/usage.js';
import type { Finish } from './loop.state.js';
import type { Spent } from './quota.guard.js';

/** What a run has used already where it goes on after it waited. */
export interface UsedBefore {
  readonly usage: Usage;
  readonly steps: number;
  readonly innerSteps: number;
  readonly hasUnknownCost: boolean;
}

const NOTHING: UsedBefore = { usage: NO_USAGE, steps: 0, innerSteps: 0, hasUnknownCost: false };

/** What one run uses up, its sub-runs included, and the limits on it. What a sub-run uses the runs around it have used. */
export class RunUse {
  /** What the run's state holds. */
  private counted: Usage;
  /** What sub-runs have used since the state was last told. */
  private inner = NO_USAGE;
  private steps: number;
  private stepsWithin: number;
  private usd: number;
  private isCostUnknown: boolean;
  /** Since it was last told what was spent. */
  private hasNewUnknown = false;

  constructor(
    private readonly limits: Pick<Limits, 'steps' | 'tokens' | 'usd'>,
    private readonly spending: SpendingLedger,
    private readonly outer?: RunUse,
    before: UsedBefore = NOTHING,
  ) {
    this.counted = before.usage;
    this.steps = before.steps;
    this.stepsWithin = before.innerSteps;
    this.usd = before.usage.costUsd ?? 0;
    this.isCostUnknown = before.hasUnknownCost;
  }

  /** Steps of sub-runs. */
  get innerSteps(): number {
    return this.stepsWithin;
  }

  /** Whether an answer of the run or of its sub-runs had no cost. */
  get hasUnknownCost(): boolean {
    return this.isCostUnknown;
  }

  beginStep(): void {
    this.steps += 1;
    for (let run = this.outer; run; run = run.outer) run.stepsWithin += 1;
  }

  /** Takes the sum of the run so far; answers with what is new in it. */
  spend(usage: Usage): Spent {
    const added = usageSince(this.counted, usage);
    this.counted = usage;
    const tokens = tokensOf(added);
    const usd = added.costUsd;
    const paid = Math.max(0, usd ?? 0); // a cost that is negative gives no money back
    this.usd += paid;
    for (let run = this.outer; run; run = run.outer) {
      run.inner = addUsage(run.inner, added);
      run.usd += paid;
    }
    this.spending.tokens += tokens;
    this.spending.usd += paid;
    const hasUnknownCost = this.hasNewUnknown;
    this.hasNewUnknown = false;
    return { tokens, hasUnknownCost, ...(usd !== undefined && { usd }) };
  }

  /** Notes what one answer was said to use: in a sum nobody sees that the cost of a part is missing. */
  heard(usage: Usage): void {
    if (Number.isFinite(usage.costUsd) && !usage.hasUnknownCost) return;
    this.hasNewUnknown = true;
    this.spending.hasUnknownCost = true;
    this.isCostUnknown = true;
    for (let run = this.outer; run; run = run.outer) run.isCostUnknown = true;
  }

  /** A sum with what sub-runs have used since this was last asked; they have paid for it. */
  withInner(usage: Usage): Usage {
    if (this.inner === NO_USAGE) return usage;
    const sum = addUsage(usage, this.inner);
    this.counted = addUsage(this.counted, this.inner);
    this.inner = NO_USAGE;
    return sum;
  }

  /** How the run has to end for what was used up, by itself or around it. A sub-run leaves the run around it one step to answer in. */
  limitReached(): Finish | undefined {
    const beyond = this.beyond('The run');
    if (beyond !== undefined) return { reason: 'budget', detail: beyond };
    if (this.stepsInAll >= this.limits.steps) return { reason: 'max_steps' };
    for (let run = this.outer; run; run = run.outer) {
      const beyondAround = run.beyond('The run around it');
      if (beyondAround !== undefined) return { reason: 'budget', detail: beyondAround };
      if (run.stepsInAll + 1 >= run.limits.steps)
        return { reason: 'max_steps', detail: `The run around it has no more of its ${run.limits.steps} steps to give.` };
    }
    return undefined;
  }

  /** Which of the limits on what is paid for was passed. Where there is one, what is no number is beyond it. */
  private beyond(who: string): string | undefined {
    const { tokens, usd } = this.limits;
    if (tokens !== Number.POSITIVE_INFINITY && !(tokensOf(this.counted) + tokensOf(this.inner) <= tokens))
      return `${who} may use ${tokens} tokens.`;
    if (usd === Number.POSITIVE_INFINITY) return undefined;
    if (this.isCostUnknown) return `${who} may cost ${usd} USD, and what it has cost is not known.`;
    return this.usd <= usd ? undefined : `${who} may cost ${usd} USD.`;
  }

  private get stepsInAll(): number {
    return this.steps + this.stepsWithin;
  }
}

function tokensOf({ inputTokens, outputTokens }: Usage): number {
  return inputTokens + outputTokens;
}
