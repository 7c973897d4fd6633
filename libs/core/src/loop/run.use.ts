import type { SpendingLedger } from '../policy/spending.ledger.js';
import type { Limits } from '../protocol/limits.js';
import { NO_USAGE, addUsage, usageSince, type Usage } from '../protocol/usage.js';
import type { Finish } from './loop.state.js';

/** What a run has used already where it goes on after it waited. */
export interface UsedBefore {
  readonly usage: Usage;
  readonly steps: number;
  readonly innerSteps: number;
}

/** Tokens and a cost, as quotas count them. */
export interface Spent {
  readonly tokens: number;
  /** Absent where no model has reported a cost. */
  readonly usd?: number;
}

const NOTHING: UsedBefore = { usage: NO_USAGE, steps: 0, innerSteps: 0 };

/** What one run uses up, its sub-runs included, and the limits on it. What a sub-run uses the runs around it have used. */
export class RunUse {
  /** What the run's state holds. */
  private counted: Usage;
  /** What sub-runs have used since the state was last told. */
  private inner = NO_USAGE;
  private steps: number;
  private stepsWithin: number;

  constructor(
    private readonly limits: Pick<Limits, 'steps' | 'tokens'>,
    private readonly spending: SpendingLedger,
    private readonly outer?: RunUse,
    before: UsedBefore = NOTHING,
  ) {
    this.counted = before.usage;
    this.steps = before.steps;
    this.stepsWithin = before.innerSteps;
  }

  /** Steps of sub-runs. */
  get innerSteps(): number {
    return this.stepsWithin;
  }

  beginStep(): void {
    this.steps += 1;
    for (let run = this.outer; run; run = run.outer) run.stepsWithin += 1;
  }

  /** Takes the sum of the run so far; answers with what is new in it. */
  spend(usage: Usage): Spent {
    const added = usageSince(this.counted, usage);
    this.counted = usage;
    for (let run = this.outer; run; run = run.outer) run.inner = addUsage(run.inner, added);
    const tokens = tokensOf(added);
    const usd = added.costUsd;
    this.spending.tokens += tokens;
    this.spending.usd += Math.max(0, usd ?? 0); // a cost that is negative gives no money back
    return { tokens, ...(usd !== undefined && { usd }) };
  }

  /** Notes what one answer was said to use: in a sum nobody sees that the cost of a part is missing. */
  heard(usage: Usage): void {
    if (usage.costUsd === undefined) this.spending.hasUnknownCost = true;
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
    if (this.isBeyondTokens) return { reason: 'budget', detail: `The run may use ${this.limits.tokens} tokens.` };
    if (this.stepsInAll >= this.limits.steps) return { reason: 'max_steps' };
    for (let run = this.outer; run; run = run.outer) {
      if (run.isBeyondTokens) return { reason: 'budget', detail: `The run around it may use ${run.limits.tokens} tokens.` };
      if (run.stepsInAll + 1 >= run.limits.steps)
        return { reason: 'max_steps', detail: `The run around it has no more of its ${run.limits.steps} steps to give.` };
    }
    return undefined;
  }

  private get isBeyondTokens(): boolean {
    const { tokens } = this.limits;
    // Where there is a limit, what is no number is beyond it.
    return tokens !== Number.POSITIVE_INFINITY && !(tokensOf(this.counted) + tokensOf(this.inner) <= tokens);
  }

  private get stepsInAll(): number {
    return this.steps + this.stepsWithin;
  }
}

function tokensOf({ inputTokens, outputTokens }: Usage): number {
  return inputTokens + outputTokens;
}
