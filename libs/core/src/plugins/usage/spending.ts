import type { JsonObject } from '@toolloop/protocol';
import type {
  BudgetCount,
  CountedBudget,
  PolicyCall,
  PolicyEngine,
  PolicySubject,
  RunBudget,
  RunSpending,
} from '../../contracts/policy.js';
import { FLAG, type Form, list, object, partly, TEXT } from '../../schema/saved-form.js';
import { covers, type Ruling } from '../../policy/rules.js';

/**
 * The spending of one run. A call is added when it is admitted, so that parallel ones count as
 * well.
 */
export class SpendingLedger implements RunSpending {
  readonly calls: SpentCall[];
  tokens = 0;
  usd = 0;
  hasUnknownCost = false;
  private taken: number;

  constructor(calls: RunSpending['calls'] = []) {
    this.calls = [...calls];
    this.taken = calls.length;
  }

  /**
   * Counts a call that is let in, at once: parallel calls must see it. Resolves to what was spent
   * elsewhere by then, if several processes count.
   */
  charge(call: SpentCall): Promise<RunSpending | undefined> {
    this.calls.push(call);
    return NOTHING_ELSEWHERE;
  }

  /**
   * Returns the calls that were admitted since the last time, by any run that shares the ledger, so
   * that each of them is saved once.
   */
  takeNew(): RunSpending['calls'] {
    const added = this.calls.slice(this.taken);
    this.taken = this.calls.length;
    return added;
  }

  /**
   * Removes a call, unless it was saved already: the ledger rather counts too much than too little.
   */
  takeBack(call: SpentCall): void {
    const index = this.calls.indexOf(call, this.taken);
    if (index !== -1) this.calls.splice(index, 1);
  }
}

/** Finds the first budget that this call would exceed. */
export function budgetRuling(
  budgets: readonly RunBudget[],
  subject: PolicySubject,
  call: PolicyCall,
): Ruling | undefined {
  let asking: Ruling | undefined;
  for (const [index, budget] of budgets.entries()) {
    const exceeded = covers(budget.tools, subject) ? exceededBy(budget, call) : undefined;
    if (exceeded === undefined) continue;
    const rule = `runBudgets[${index}]`;
    if (budget.beyond !== 'ask')
      return { kind: 'deny', rule, reason: exceeded, isOverBudget: true };
    asking ??= { kind: 'require_approval', rule, reason: exceeded };
  }
  return asking;
}

/**
 * Describes how a call exceeds a budget. The comparisons are written so that a total that is not a
 * number exceeds it, too.
 */
function exceededBy(budget: RunBudget, call: PolicyCall): string | undefined {
  const { tokens, usd } = budget;
  const { spent } = call;
  const beyond = budget.calls === undefined && !budget.sum ? undefined : callsBeyond(budget, call);
  if (beyond !== undefined) return beyond;
  if (tokens !== undefined && !(spent.tokens <= tokens))
    return `The run has used ${spent.tokens} tokens, and its limit is ${tokens}.`;
  return usd === undefined ? undefined : costBeyond(usd, spent);
}

function callsBeyond(budget: RunBudget, { args, spent }: PolicyCall): string | undefined {
  const { calls, sum } = budget;
  const earlier = spent.counted?.(budget) ?? countedIn(spent.calls, budget);
  if (calls !== undefined && !(earlier.calls < calls))
    return `The run has used up its limit of ${calls} such calls.`;
  if (!sum || earlier.sum + numberAt(args, sum.argument) <= sum.most) return undefined;
  // The total is left out, since the argument may be hidden.
  return `The sum over ${sum.argument} would exceed ${sum.most}, the limit of a run.`;
}

function costBeyond(most: number, { usd, hasUnknownCost }: RunSpending): string | undefined {
  if (hasUnknownCost) return `The cost of the run is unknown, and its limit is ${most} USD.`;
  return usd <= most ? undefined : `The run has cost ${usd} USD, and its limit is ${most}.`;
}

/** A call that was let in. */
export type SpentCall = RunSpending['calls'][number];

export const SAVED_CALLS: Form<RunSpending['calls']> = list(
  object({ declaredId: TEXT, trusted: FLAG, args: partly<JsonObject>() }),
);

const NOTHING_ELSEWHERE = Promise.resolve(undefined);

/** Amounts by names; see {@link CountedSpending}. */
export type BudgetAmounts = Readonly<Record<string, number>>;

/**
 * The spending of a session, as counts for the budgets in force: its calls have no end, so no list
 * of them is kept.
 */
export class CountedSpending extends SpendingLedger {
  private readonly totals = new Map<string, number>();

  constructor(
    private readonly engines: readonly PolicyEngine[],
    /**
     * Adds amounts to what all sessions of an account have spent, and resolves to their totals.
     * Absent where there is no account.
     */
    private readonly tell?: (amounts: BudgetAmounts) => Promise<BudgetAmounts>,
  ) {
    super();
  }

  /** Returns whether any budget counts. */
  get isCounting(): boolean {
    return this.engines.some((engine) => (engine.budgets?.() ?? NO_BUDGETS).length > 0);
  }

  /**
   * Takes the totals of the account. What this process added meanwhile is not lost by it: totals
   * only grow.
   */
  learn(totals: BudgetAmounts): void {
    for (const [name, total] of Object.entries(totals))
      this.totals.set(name, Math.max(total, this.totals.get(name) ?? 0));
  }

  counted(budget: CountedBudget): BudgetCount {
    return countIn(this.totals, budget);
  }

  /** Resolves to what all other sessions of the account had spent by then. */
  override async charge(call: SpentCall): Promise<RunSpending | undefined> {
    if (!this.isCounting) return undefined;
    const amounts = this.amountsOf(call);
    const added = Object.entries(amounts);
    for (const [name, amount] of added)
      this.totals.set(name, (this.totals.get(name) ?? 0) + amount);
    if (added.length === 0 || !this.tell) return undefined;
    const totals = await this.tell(amounts);
    this.learn(totals);
    return this.without(totals, amounts);
  }

  /** A count that was told stays told: the ledger rather counts too much than too little. */
  override takeBack(call: SpentCall): void {
    if (this.tell) return;
    for (const [name, amount] of Object.entries(this.amountsOf(call)))
      this.totals.set(name, (this.totals.get(name) ?? 0) - amount);
  }

  private without(totals: BudgetAmounts, own: BudgetAmounts): RunSpending {
    const others = new Map(
      Object.entries(totals).map(([name, total]) => [name, total - (own[name] ?? 0)]),
    );
    const { calls, tokens, usd, hasUnknownCost } = this;
    return { calls, tokens, usd, hasUnknownCost, counted: (budget) => countIn(others, budget) };
  }

  private amountsOf(call: SpentCall): BudgetAmounts {
    const amounts = new Map<string, number>();
    for (const engine of this.engines)
      for (const budget of engine.budgets?.() ?? NO_BUDGETS) {
        if (!isCounted(call, budget)) continue;
        if (budget.calls !== undefined) amounts.set(callsName(budget), 1);
        if (budget.sum) amounts.set(sumName(budget), numberAt(call.args, budget.sum.argument));
      }
    return Object.fromEntries(amounts);
  }
}

const NO_BUDGETS: readonly RunBudget[] = [];

function countIn(totals: ReadonlyMap<string, number>, budget: CountedBudget): BudgetCount {
  return { calls: totals.get(callsName(budget)) ?? 0, sum: totals.get(sumName(budget)) ?? 0 };
}

/**
 * The names say what is counted, and not the limit: a budget that is raised or lowered keeps its
 * count.
 */
function callsName({ tools }: CountedBudget): string {
  return JSON.stringify(['calls', tools?.toSorted() ?? null]);
}

function sumName({ tools, sum }: CountedBudget): string {
  return JSON.stringify(['sum', tools?.toSorted() ?? null, sum?.argument ?? null]);
}

const NOTHING_COUNTED: BudgetCount = { calls: 0, sum: 0 };

function countedIn(calls: RunSpending['calls'], budget: CountedBudget): BudgetCount {
  let counted = NOTHING_COUNTED;
  for (const call of calls) {
    if (!isCounted(call, budget)) continue;
    counted = {
      calls: counted.calls + 1,
      sum: counted.sum + (budget.sum ? numberAt(call.args, budget.sum.argument) : 0),
    };
  }
  return counted;
}

function isCounted({ declaredId, trusted }: SpentCall, { tools }: CountedBudget): boolean {
  return covers(tools, { declaredId, origin: { source: '', trusted } });
}

/**
 * Reads the absolute value of an argument, since a negative amount would make room for more. A
 * value that is not a number counts as 0.
 */
function numberAt(args: JsonObject, pointer: string): number {
  let value: unknown = args;
  for (const part of pointer.split('/').slice(1))
    value = memberOf(value, part.replaceAll('~1', '/').replaceAll('~0', '~'));
  return typeof value === 'number' ? Math.abs(value) : 0;
}

function memberOf(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? Reflect.get(value, key)
    : undefined;
}
