import { StorageUnavailableError, type ToolFailure, type Usage } from '@toolloop/protocol';
import { interruptionFailure } from '../../call/call-failure.js';
import { Interruption, untilAborted } from '../../contracts/interruption.js';
import type { Quota } from '../../contracts/quota.js';
import type { UsageIncrement, UsageWindow } from '../../contracts/usage.js';
import { Logger } from '../../findings/logger.js';
import type { CallGrant, MeteredRun, QuotaStanding } from './run-meter.js';
import type { UsageLedger } from './usage-ledger.js';

/**
 * The tenant's quotas, as one run and its sub-runs meet them. What cannot be counted is not done:
 * an outage of the store must not lift the quotas.
 */
export class QuotaGuard {
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
  let beyond: CallGrant['beyond'] = { refusal: USED_UP, finish: { reason: 'budget' } };
  for (const [index, quota] of quotas.entries()) {
    const left = Math.floor(quota.most - ((totals[index] ?? Number.NaN) - wanted));
    if (left >= calls) continue;
    beyond = { refusal: USED_UP, finish: { reason: 'budget', detail: detailOf(quota) } };
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

const USED_UP: ToolFailure = {
  code: 'budget_exceeded',
  safeMessage: 'No calls are left for now, so this one was not made.',
};

/**
 * The error of a store that refuses what it was given, or of one without a bound: what is not
 * counted is not made, and the model is told nothing of it.
 */
function uncounted(cause: unknown): StorageUnavailableError {
  return new StorageUnavailableError('The quotas could not be counted.', { cause, mayPass: false });
}
