import { randomUUID } from 'node:crypto';
import {
  type FinishReason,
  StorageUnavailableError,
  type ToolFailure,
  type Usage,
} from '@toolloop/protocol';
import type { Quota } from '../contracts/limits.js';
import type { UsageAmounts, UsageIncrement, UsageKey, UsageWindow } from '../contracts/usage.js';
import { Interruption, interruptionFailure, untilAborted } from '../execution/call-failure.js';
import { Logger } from '../findings/logger.js';
import type { UsageLedger } from './usage-ledger.js';

/** The number of calls that may be made, and the end of the run for those beyond. */
export interface CallGrant {
  readonly calls: number;
  readonly beyond: {
    readonly refusal: ToolFailure;
    readonly limit?: FinishReason;
    readonly detail?: string;
  };
}

/** A quota of a tenant, and whether anything of it is left for now. */
export interface QuotaStanding {
  readonly quota: Quota;
  readonly isLeft: boolean;
}

/** The run whose use is counted; for a sub-run, the root run. */
export interface MeteredRun {
  readonly runId: string;
  readonly tenant: string;
  readonly actorId: string | undefined;
}

/** A call that is about to be made. */
export interface MeteredCall {
  /** The declared id of its tool. */
  readonly tool: string;
  /** The model of the run. Absent for a call without one. */
  readonly model?: string;
  /** Set where another process may count the call as well. */
  readonly id?: string;
}

const NOTHING: UsageAmounts = {
  calls: 0,
  answers: 0,
  inputTokens: 0,
  outputTokens: 0,
  usd: 0,
  unpricedAnswers: 0,
};

/** More is no number of tokens, whatever a provider reports, and would not fit into a sum. */
const MOST_OF_AN_AMOUNT = Number.MAX_SAFE_INTEGER;

/** Counts the use of one run, and holds it against the quotas of its tenant. */
export class RunMeter {
  private readonly guard: QuotaGuard | undefined;
  /** The use by the last call that has no id. */
  private last: UsageIncrement | undefined;

  constructor(
    private readonly ledger: UsageLedger,
    private readonly run: MeteredRun,
    quotas: readonly Quota[] | QuotaGuard | undefined,
    /** The declared id of the tool whose call is this run. */
    private readonly within?: string,
  ) {
    this.guard =
      quotas instanceof QuotaGuard
        ? quotas
        : quotas && quotas.length > 0
          ? new QuotaGuard(ledger, run, quotas)
          : undefined;
  }

  /** The meter of a sub-run, with the same quotas. */
  ofSubRun(tool: string): RunMeter {
    return new RunMeter(this.ledger, this.run, this.guard, tool);
  }

  /**
   * Counts calls before they are made. Undefined where all of them may be. A promise only where the
   * tenant has quotas.
   */
  takeCalls(calls: readonly MeteredCall[], signal: AbortSignal): Promise<CallGrant> | undefined {
    const { guard, ledger, run } = this;
    if (guard?.countsCalls)
      return guard.takeCalls(
        calls.map((call) => this.useOf(call)),
        signal,
      );
    for (const call of calls) ledger.note(run.tenant, this.useOf(call));
    return undefined;
  }

  /** The last one again where it is the same: most calls of a run are like the one before. */
  private useOf({ tool, model, id }: MeteredCall): UsageIncrement {
    const { last } = this;
    if (
      id === undefined &&
      last &&
      last.tool === tool &&
      last.model === model &&
      last.day === today()
    )
      return last;
    const use = this.use({ calls: 1 }, { tool, ...(model !== undefined && { model }) }, id);
    if (id === undefined) this.last = use;
    return use;
  }

  /** Counts an answer of a model. A promise only where the tenant has quotas; it never rejects. */
  answered(usage: Usage, model: string, signal: AbortSignal): Promise<void> | undefined {
    const { inputTokens, outputTokens, costUsd } = usage;
    const isPriced = Number.isFinite(costUsd) && !usage.hasUnknownCost;
    const amounts = {
      answers: 1,
      inputTokens: soundAmount(inputTokens),
      outputTokens: soundAmount(outputTokens),
      usd: soundAmount(costUsd ?? 0),
      unpricedAnswers: isPriced ? 0 : 1,
    };
    const key = { model, ...(this.within !== undefined && { tool: this.within }) };
    if (this.guard?.countsAnswers)
      return this.guard.charge(this.use(amounts, key, randomUUID()), usage, signal);
    this.ledger.note(this.run.tenant, this.use(amounts, key));
    return undefined;
  }

  /** The quota for which no model may be asked any more. Rejects where it cannot be read. */
  spent(signal: AbortSignal): Promise<Quota | undefined> | undefined {
    return this.guard?.countsAnswers ? this.guard.spent(signal) : undefined;
  }

  /**
   * Resolves to the tenant's quotas, each with whether a call may still use it. Rejects where they
   * cannot be read.
   */
  async quotas(signal: AbortSignal): Promise<readonly QuotaStanding[]> {
    return (await this.guard?.standing(signal)) ?? [];
  }

  private use(
    amounts: Partial<UsageAmounts>,
    key: Pick<UsageKey, 'tool' | 'model'>,
    id?: string,
  ): UsageIncrement {
    const { actorId } = this.run;
    return {
      ...NOTHING,
      ...amounts,
      ...key,
      day: today(),
      ...(actorId !== undefined && { actor: actorId }),
      ...(id !== undefined && { id }),
    };
  }
}

function soundAmount(amount: number): number {
  return amount > 0 ? Math.min(amount, MOST_OF_AN_AMOUNT) : 0; // 0 for what is no number
}

const DAY_MS = 86_400_000;
let day = { number: -1, text: '' };

/** Writing a date out is most of what a count would cost. */
function today(): string {
  const now = Date.now();
  const number = Math.floor(now / DAY_MS);
  if (number !== day.number) day = { number, text: new Date(now).toISOString().slice(0, 10) };
  return day.text;
}

/**
 * The tenant's quotas, as one run and its sub-runs meet them. What cannot be counted is not done:
 * an outage of the store must not lift the quotas.
 */
class QuotaGuard {
  private readonly logger = new Logger(QuotaGuard.name);
  private readonly ofCalls: readonly Quota[];
  private readonly ofSpending: readonly Quota[];
  /**
   * True once a model has reported something other than a number: then the use of the quotas is
   * unknown.
   */
  private isUncounted = false;
  private hasFailed = false;
  private hasWarned = false;

  constructor(
    private readonly ledger: UsageLedger,
    private readonly run: MeteredRun,
    private readonly quotas: readonly Quota[],
  ) {
    this.ofCalls = quotas.filter(({ quantity }) => quantity === 'calls');
    this.ofSpending = quotas.filter(({ quantity }) => quantity !== 'calls');
  }

  get countsCalls(): boolean {
    return this.ofCalls.length > 0;
  }

  get countsAnswers(): boolean {
    return this.ofSpending.length > 0;
  }

  /**
   * Takes calls before they are made, and gives back those beyond. Throws where the store fails:
   * that says nothing of the calls.
   */
  async takeCalls(uses: readonly UsageIncrement[], signal: AbortSignal): Promise<CallGrant> {
    const { tenant } = this.run;
    const windows = this.ofCalls.map(windowOf);
    const giveBack = (from: number): void => {
      for (const use of uses.slice(from)) this.ledger.note(tenant, takenBack(use), windows);
    };
    let adding: Promise<readonly number[]> | undefined;
    try {
      signal.throwIfAborted(); // a run that is over makes no calls, so it takes none
      adding = this.ledger.add(tenant, uses, windows);
      const grant = grantOf(this.ofCalls, await this.asked(adding, signal), uses.length);
      giveBack(grant.calls);
      return grant;
    } catch (error) {
      const unavailable = StorageUnavailableError.in(error);
      if (unavailable || !signal.aborted) throw unavailable ?? uncounted(error);
      adding?.then(
        () => giveBack(0),
        () => undefined,
      );
      return { calls: 0, beyond: { refusal: interruptionFailure(Interruption.from(signal)) } };
    }
  }

  /**
   * The quota that is used up. Throws the interruption of a run that ends meanwhile, and where the
   * store fails.
   */
  async spent(signal: AbortSignal): Promise<Quota | undefined> {
    if (this.isUncounted) throw new Error('The quotas could not be counted.');
    return (await this.standing(signal, this.ofSpending)).find(({ isLeft }) => !isLeft)?.quota;
  }

  /** Resolves to what is left of the quotas. Throws as `spent` does. */
  async standing(signal: AbortSignal, quotas = this.quotas): Promise<readonly QuotaStanding[]> {
    const totals = await this.asked(
      this.ledger.totals(this.run.tenant, quotas.map(windowOf)),
      signal,
    );
    // nothing of a total that is no number
    return quotas.map((quota, index) => ({
      quota,
      isLeft: (totals[index] ?? Number.NaN) < quota.most,
    }));
  }

  /**
   * Adds what a model call has cost. Never throws: it is spent already, so where the store fails it
   * is added later.
   */
  async charge(
    use: UsageIncrement,
    { inputTokens, outputTokens, costUsd = 0 }: Usage,
    signal: AbortSignal,
  ): Promise<void> {
    const { tenant } = this.run;
    const windows = this.ofSpending.map(windowOf);
    if (![inputTokens, outputTokens, costUsd].every(Number.isFinite)) {
      this.isUncounted = true;
      this.report(
        new TypeError(
          `A model of the run has used ${inputTokens} and ${outputTokens} tokens for ${costUsd} USD.`,
        ),
      );
    }
    if (use.unpricedAnswers > 0 && inputTokens + outputTokens > 0) this.warnWithoutCost();
    const adding = this.ledger.add(tenant, [use], windows);
    adding.catch(() => this.ledger.note(tenant, use, windows));
    await this.asked(adding, signal).catch(() => undefined);
  }

  /** The store is told in any case; a run that was aborted does not wait for its answer. */
  private async asked<Answer>(asking: Promise<Answer>, signal: AbortSignal): Promise<Answer> {
    asking.catch((error: unknown) => this.report(error));
    try {
      return await untilAborted(asking, signal);
    } catch (error) {
      if (signal.aborted) throw Interruption.from(signal);
      throw StorageUnavailableError.in(error) ?? uncounted(error);
    }
  }

  private report(error: unknown): void {
    if (this.hasFailed) return;
    this.hasFailed = true;
    this.logger.error(
      `The quotas of run ${this.run.runId} could not be counted, so its calls are refused.`,
      error,
    );
  }

  private warnWithoutCost(): void {
    if (this.hasWarned || !this.ofSpending.some(({ quantity }) => quantity === 'usd')) return;
    this.hasWarned = true;
    this.logger.warn(
      `An answer in run ${this.run.runId} has no cost (Usage.costUsd), so the usd quota does not count it.`,
    );
  }
}

/** The calls that may be made, of so many that are in the totals already. */
function grantOf(quotas: readonly Quota[], totals: readonly number[], wanted: number): CallGrant {
  let calls = wanted;
  let beyond = USED_UP;
  for (const [index, quota] of quotas.entries()) {
    const left = Math.floor(quota.most - ((totals[index] ?? Number.NaN) - wanted));
    if (left >= calls) continue;
    beyond = { ...USED_UP, detail: detailOf(quota) };
    calls = left > 0 ? left : 0; // none for a total that is no number
  }
  return { calls, beyond };
}

function takenBack({ id, ...use }: UsageIncrement): UsageIncrement {
  return { ...use, calls: -use.calls, ...(id !== undefined && { id: `${id} refused` }) };
}

function windowOf({ quantity, windowMs }: Quota): UsageWindow {
  return { quantity, windowMs };
}

/** Tells of a quota: how much is left of it, and what others have used, are not told. */
export function detailOf({ quantity, most, windowMs }: Quota, standing = 'is used up'): string {
  return `The tenant's quota of ${most} ${quantity} in ${windowMs} ms ${standing}.`;
}

const USED_UP: CallGrant['beyond'] = {
  limit: 'budget',
  refusal: {
    code: 'budget_exceeded',
    safeMessage: 'No calls are left for now, so this one was not made.',
  },
};

/**
 * The error of a store that refuses what it was given, or of one without a bound: what is not
 * counted is not made, and the model is told nothing of it.
 */
function uncounted(cause: unknown): StorageUnavailableError {
  return new StorageUnavailableError('The quotas could not be counted.', { cause, mayPass: false });
}
