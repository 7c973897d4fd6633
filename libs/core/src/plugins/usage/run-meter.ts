import { randomUUID } from 'node:crypto';
import type { Usage } from '@toolloop/protocol';
import type { Quota } from '../../contracts/quota.js';
import type { UsageAmounts, UsageIncrement, UsageKey } from '../../contracts/usage.js';
import type { Awaitable, CallLimit } from '../../plugin/run-points.js';
import { QuotaGuard } from './quota-guard.js';
import type { UsageLedger } from './usage-ledger.js';

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
    this.guard = quotas instanceof QuotaGuard ? quotas : guardOf(ledger, run, quotas);
  }

  /** The meter of a sub-run, with the same quotas. */
  ofSubRun(tool: string): RunMeter {
    return new RunMeter(this.ledger, this.run, this.guard, tool);
  }

  /** Counts calls before they are made. Undefined if there is no quota of calls. */
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

  /** Counts an answer of a model. Never rejects. */
  answered(usage: Usage, model: string, signal: AbortSignal): Awaitable<void> {
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
  }

  /** The quota for which no model may be asked any more. Rejects where it cannot be read. */
  spent(signal: AbortSignal): Promise<Quota | undefined> | undefined {
    return this.guard?.countsAnswers ? this.guard.spent(signal) : undefined;
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

function guardOf(
  ledger: UsageLedger,
  run: MeteredRun,
  quotas: readonly Quota[] = [],
): QuotaGuard | undefined {
  return quotas.length > 0 ? new QuotaGuard(ledger, run, quotas) : undefined;
}

/** The number of calls that may be made, and the refusal of those beyond. */
export interface CallGrant {
  readonly calls: number;
  readonly beyond: Omit<CallLimit, 'index'>;
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
