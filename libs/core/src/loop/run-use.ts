import { Logger } from '@nestjs/common';
import {
  addUsage,
  type FinishReason,
  NO_USAGE,
  StorageUnavailableError,
  type ToolFailure,
  type Usage,
  usageSince,
} from '@toolloop/protocol';
import type { Limits, Quota, QuotaStore } from '../contracts/limits.js';
import type { RunContext } from '../contracts/tool-call.js';
import { Interruption, interruptionFailure, untilAborted } from '../execution/call-failure.js';
import type { SpendingLedger } from '../policy/rules.js';
import type { Finish } from './loop-state.js';

/** The number of calls that may be made, and the end of the run for those beyond. */
export interface CallGrant {
  readonly calls: number;
  readonly beyond: { readonly refusal: ToolFailure; readonly limit?: FinishReason; readonly detail?: string };
}

/** The use of a run since the last question. */
export interface Spent {
  readonly tokens: number;
  /** Absent where no model has reported a cost. */
  readonly usd?: number;
  /** True if the cost of an answer is missing in `usd`. */
  readonly hasUnknownCost: boolean;
}

/** The tenant's quotas, as one run meets them. What cannot be counted is not done: an outage of the store must not lift the quotas. */
export class QuotaGuard {
  private readonly logger = new Logger(QuotaGuard.name);
  /** The shortest window first: what it refuses is not taken from the longer ones. */
  private readonly ofCalls: readonly Quota[];
  private readonly ofSpending: readonly Quota[];
  /** True once a model has reported something other than a number: then the use of the quotas is unknown. */
  private isUncounted = false;
  private hasFailed = false;
  private hasWarned = false;

  constructor(
    private readonly store: QuotaStore,
    private readonly run: Pick<RunContext, 'runId' | 'tenant'>,
    quotas: readonly Quota[],
  ) {
    this.ofCalls = quotas.filter(({ quantity }) => quantity === 'calls').toSorted((a, b) => a.windowMs - b.windowMs);
    this.ofSpending = quotas.filter(({ quantity }) => quantity !== 'calls');
  }

  /** Takes calls before they are made; what was refused counts as well until the window ends. Throws only where the store does not answer for now. */
  async takeCalls(wanted: number, signal: AbortSignal): Promise<CallGrant> {
    let calls = wanted;
    let beyond = USED_UP;
    try {
      signal.throwIfAborted(); // a run that is over makes no calls, so it takes none
      for (const quota of this.ofCalls) {
        if (calls === 0) break;
        const before = (await this.use(quota, calls, signal)) - calls;
        const left = Math.floor(quota.most - before);
        if (!(left >= calls)) beyond = { ...USED_UP, detail: detailOf(quota) };
        calls = left > 0 ? Math.min(calls, left) : 0; // none for a total that is no number
      }
      return { calls, beyond };
    } catch (error) {
      const unavailable = StorageUnavailableError.in(error);
      if (unavailable) throw unavailable;
      return { calls: 0, beyond: signal.aborted ? { refusal: interruptionFailure(Interruption.from(signal)) } : UNCOUNTED };
    }
  }

  /** The quota for which no model may be asked any more. Throws the interruption of a run that ends meanwhile, and where the store fails. */
  async spent(signal: AbortSignal): Promise<Quota | undefined> {
    if (this.isUncounted) throw new Error('The quotas could not be counted.');
    const isReached = async (quota: Quota): Promise<boolean> => !((await this.use(quota, 0, signal)) < quota.most);
    const reached = await Promise.all(this.ofSpending.map(isReached));
    return this.ofSpending.find((_, index) => reached[index]);
  }

  /** Adds what a model call has cost. Never throws: it is spent already, so where the store fails it is lost to the quota, and logged. */
  async charge(spent: Spent, signal: AbortSignal): Promise<void> {
    await Promise.allSettled(this.ofSpending.map((quota) => this.chargeOne(quota, spent, signal)));
  }

  private async chargeOne(quota: Quota, { tokens, usd, hasUnknownCost }: Spent, signal: AbortSignal): Promise<void> {
    const amount = quota.quantity === 'usd' ? usd : tokens;
    if (amount !== undefined && !Number.isFinite(amount)) {
      this.isUncounted = true;
      this.report(new TypeError(`A model of the run has used ${amount} ${quota.quantity}.`));
    } else if (amount !== undefined && amount > 0) await this.use(quota, amount, signal);
    if (quota.quantity === 'usd' && hasUnknownCost && tokens > 0) this.warnWithoutCost();
  }

  /** The store is told in any case; a run that was aborted does not wait for its answer. */
  private async use({ quantity, windowMs }: Quota, amount: number, signal: AbortSignal): Promise<number> {
    const { tenant } = this.run;
    try {
      const using = Promise.resolve(this.store.use({ tenant, quantity, windowMs, amount }));
      using.catch((error: unknown) => this.report(error));
      return await untilAborted(using, signal);
    } catch (error) {
      if (signal.aborted) throw Interruption.from(signal);
      this.report(error);
      throw new Error('The quotas could not be counted.', { cause: error });
    }
  }

  private report(error: unknown): void {
    if (this.hasFailed) return;
    this.hasFailed = true;
    this.logger.error(`The quotas of run ${this.run.runId} could not be counted, so its calls are refused.`, error);
  }

  private warnWithoutCost(): void {
    if (this.hasWarned) return;
    this.hasWarned = true;
    this.logger.warn(`An answer in run ${this.run.runId} has no cost (Usage.costUsd), so the usd quota does not count it.`);
  }
}

/** Returns the detail of an end by a quota: what is left of it, and what others have used, are not told. */
export function detailOf({ quantity, most, windowMs }: Quota): string {
  return `The tenant's quota of ${most} ${quantity} in ${windowMs} ms is used up.`;
}

const USED_UP: CallGrant['beyond'] = {
  limit: 'budget',
  refusal: { code: 'budget_exceeded', safeMessage: 'No calls are left for now, so this one was not made.' },
};

const UNCOUNTED: CallGrant['beyond'] = {
  refusal: { code: 'execution_failed', safeMessage: 'The number of calls left could not be read, so this one was not made.' },
};

/** The use of a run until it waited. */
export interface UsedBefore {
  readonly usage: Usage;
  readonly steps: number;
  readonly innerSteps: number;
  readonly hasUnknownCost: boolean;
}

const NOTHING: UsedBefore = { usage: NO_USAGE, steps: 0, innerSteps: 0, hasUnknownCost: false };

/** The use of one run, its sub-runs included, and the limits on it. The use of a sub-run counts in the runs around it. */
export class RunUse {
  /** The usage in the run's state. */
  private counted: Usage;
  /** The usage of sub-runs since the state was last told. */
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

  /** Returns whether an answer of the run or of its sub-runs had no cost. */
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

  /** Records the use of one answer. A sum would not show that the cost of a part is missing. */
  recordUsage(usage: Usage): void {
    if (Number.isFinite(usage.costUsd) && !usage.hasUnknownCost) return;
    this.hasNewUnknown = true;
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

  /** Returns the end of the run for what was used up, by itself or around it. A sub-run leaves the run around it one step to answer in. */
  limitReached(): Finish | undefined {
    const beyond = this.beyond('The run');
    if (beyond !== undefined) return { reason: 'budget', detail: beyond };
    const { steps } = this.limits;
    if (this.stepsInAll >= steps) return { reason: 'max_steps', detail: `The limit "steps" is ${steps}.` };
    for (let run = this.outer; run; run = run.outer) {
      const beyondAround = run.beyond('The run around it');
      if (beyondAround !== undefined) return { reason: 'budget', detail: beyondAround };
      if (run.stepsInAll + 1 >= run.limits.steps)
        return { reason: 'max_steps', detail: `The run around it has no more of its ${run.limits.steps} steps to give.` };
    }
    return undefined;
  }

  /** Returns the limit on tokens or cost that was passed. With a limit, a value that is no number is beyond it. */
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
