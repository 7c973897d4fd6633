import { addUsage, NO_USAGE, type Usage, usageSince } from '@toolloop/protocol';
import type { Limits } from '../contracts/limits.js';
import type { SpendingLedger } from '../plugins/usage/spending.js';
import type { Finish } from '../loop/loop-state.js';

/**
 * The use of one run, its sub-runs included, and the limits on it. The use of a sub-run counts in
 * the runs around it.
 */
export class RunUse {
  /** The usage in the run's state. */
  private counted: Usage;
  /** The usage of sub-runs since the state was last told. */
  private inner = NO_USAGE;
  private steps: number;
  private stepsWithin: number;
  private usd: number;
  private isCostUnknown: boolean;

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

  /** Returns whether an answer of the run or of its sub-runs had no cost. */
  get hasUnknownCost(): boolean {
    return this.isCostUnknown;
  }

  beginStep(): void {
    this.steps += 1;
    for (let run = this.outer; run; run = run.outer) run.stepsWithin += 1;
  }

  /** Takes the sum of the run so far, and counts what is new in it. */
  spend(usage: Usage): void {
    const added = usageSince(this.counted, usage);
    this.counted = usage;
    const paid = Math.max(0, added.costUsd ?? 0); // a cost that is negative gives no money back
    this.usd += paid;
    for (let run = this.outer; run; run = run.outer) {
      run.inner = addUsage(run.inner, added);
      run.usd += paid;
    }
    this.spending.tokens += tokensOf(added);
    this.spending.usd += paid;
  }

  /** Records the use of one answer. A sum would not show that the cost of a part is missing. */
  recordUsage(usage: Usage): void {
    if (Number.isFinite(usage.costUsd) && !usage.hasUnknownCost) return;
    this.spending.hasUnknownCost = true;
    this.isCostUnknown = true;
    for (let run = this.outer; run; run = run.outer) run.isCostUnknown = true;
  }

  /** A sum with what sub-runs have used since this was last asked; they have paid for it. */
  includeSubRuns(usage: Usage): Usage {
    if (this.inner === NO_USAGE) return usage;
    const sum = addUsage(usage, this.inner);
    this.counted = addUsage(this.counted, this.inner);
    this.inner = NO_USAGE;
    return sum;
  }

  /**
   * Returns the end of the run for what was used up, by itself or around it. A sub-run leaves the
   * run around it one step to answer in.
   */
  limitReached(): Finish | undefined {
    const beyond = this.beyond('The run');
    if (beyond !== undefined) return { reason: 'budget', detail: beyond };
    const { steps } = this.limits;
    if (this.stepsInAll >= steps)
      return { reason: 'max_steps', detail: `The limit "steps" is ${steps}.` };
    for (let run = this.outer; run; run = run.outer) {
      const beyondAround = run.beyond('The run around it');
      if (beyondAround !== undefined) return { reason: 'budget', detail: beyondAround };
      if (run.stepsInAll + 1 >= run.limits.steps)
        return {
          reason: 'max_steps',
          detail: `The run around it has no more of its ${run.limits.steps} steps to give.`,
        };
    }
    return undefined;
  }

  /**
   * Returns the limit on tokens or cost that was passed. With a limit, a value that is no number is
   * beyond it.
   */
  private beyond(who: string): string | undefined {
    const { tokens, usd } = this.limits;
    if (
      tokens !== Number.POSITIVE_INFINITY &&
      !(tokensOf(this.counted) + tokensOf(this.inner) <= tokens)
    )
      return `${who} may use ${tokens} tokens.`;
    if (usd === Number.POSITIVE_INFINITY) return undefined;
    if (this.isCostUnknown) return `${who} may cost ${usd} USD, and what it has cost is not known.`;
    return this.usd <= usd ? undefined : `${who} may cost ${usd} USD.`;
  }

  private get stepsInAll(): number {
    return this.steps + this.stepsWithin;
  }
}

const NOTHING: UsedBefore = { usage: NO_USAGE, steps: 0, innerSteps: 0, hasUnknownCost: false };

/** The use of a run until it waited. */
export interface UsedBefore {
  readonly usage: Usage;
  readonly steps: number;
  readonly innerSteps: number;
  readonly hasUnknownCost: boolean;
}

function tokensOf({ inputTokens, outputTokens }: Usage): number {
  return inputTokens + outputTokens;
}
