import {
  amountOf,
  type UsageAmounts,
  type UsageBatch,
  type UsageDimension,
  type UsageIncrement,
  type UsageKey,
  type UsageQuery,
  type UsageRow,
  usageSortKey,
  UsageStore,
  type UsageWindow,
} from '../contracts/usage.js';

const MOST_COUNTERS = 100_000;
const MOST_ROWS = 10_000;
const MOST_IDS = 10_000;
const KEPT_MS = 400 * 86_400_000;

interface Counter {
  readonly window: number;
  readonly total: number;
}

type LedgerRow = UsageKey & UsageAmounts;

/** The dimensions of a row within its tenant. */
const KEY = ['day', 'actor', 'tool', 'model'] as const satisfies readonly (keyof UsageKey)[];

/** The counts of one tenant: a tenant that floods takes nothing from another. */
interface TenantLedger {
  /** In the order in which they were first counted. */
  readonly rows: Map<string, LedgerRow>;
  /** Those of batches and increments, the oldest first. */
  readonly ids: Set<string>;
  /** The day on which rows were last looked through for those that are too old. */
  swept: string;
}

/**
 * Counts usage in memory, for this process only, with 10,000 rows and the last 10,000 ids of each
 * tenant: beyond them the oldest is dropped. Days are kept for 400. Beyond 100,000 counters of
 * windows the least recently used one is dropped.
 */
export class MemoryUsageStore extends UsageStore {
  private readonly tenants = new Map<string, TenantLedger>();
  private readonly counters = new Map<string, Counter>();

  override add({
    batchId,
    tenant,
    increments,
    windows = [],
  }: UsageBatch): Promise<readonly number[]> {
    const ledger = this.tenants.get(tenant) ?? {
      rows: new Map<string, LedgerRow>(),
      ids: new Set<string>(),
      swept: '',
    };
    this.tenants.set(tenant, ledger);
    const isNew = remember(ledger.ids, `batch ${batchId}`);
    const added = isNew
      ? increments.filter(({ id }) => id === undefined || remember(ledger.ids, `use ${id}`))
      : [];
    for (const increment of added) count(ledger.rows, increment);
    sweep(ledger);
    return Promise.resolve(
      windows.map((window) => this.count(tenant, window, sumIn(added, window))),
    );
  }

  override totals(tenant: string, windows: readonly UsageWindow[]): Promise<readonly number[]> {
    return Promise.resolve(windows.map((window) => this.count(tenant, window, 0)));
  }

  override report({
    tenant,
    from,
    to,
    groupBy,
    limit,
    after,
    ...wanted
  }: UsageQuery): Promise<readonly UsageRow[]> {
    const groups = new Map<string, { readonly key: readonly string[]; readonly row: UsageRow }>();
    for (const row of this.rowsOf(tenant)) {
      if (row.day < from || row.day > to || !isWanted(row, wanted)) continue;
      const key = groupBy.map((name) => usageSortKey(row[name]));
      const text = JSON.stringify(key);
      const known = groups.get(text);
      groups.set(text, {
        key,
        row: known
          ? { ...known.row, ...sum(known.row, row) }
          : { ...dimensionsOf(row, groupBy), ...amountsOf(row) },
      });
    }
    const sorted = [...groups.values()].toSorted((one, two) => compare(one.key, two.key));
    const start = after === undefined ? 0 : sorted.findIndex(({ key }) => compare(key, after) > 0);
    return Promise.resolve(
      start < 0 ? [] : sorted.slice(start, start + limit).map(({ row }) => row),
    );
  }

  private *rowsOf(tenant: string | undefined): Generator<LedgerRow & { readonly tenant: string }> {
    const named = tenant === undefined ? this.tenants.keys() : [tenant];
    for (const name of named)
      for (const row of this.tenants.get(name)?.rows.values() ?? []) yield { ...row, tenant: name };
  }

  private count(tenant: string, { quantity, windowMs }: UsageWindow, amount: number): number {
    const key = JSON.stringify([tenant, quantity, windowMs]);
    const window = Math.floor(Date.now() / windowMs);
    const known = this.counters.get(key);
    const total = (known?.window === window ? known.total : 0) + amount;
    this.counters.delete(key);
    this.counters.set(key, { window, total });
    const [oldest] = this.counters.keys();
    if (this.counters.size > MOST_COUNTERS && oldest !== undefined) this.counters.delete(oldest);
    return total;
  }
}

/** Returns whether an id is new, and remembers it. */
function remember(ids: Set<string>, id: string): boolean {
  if (ids.has(id)) return false;
  ids.add(id);
  const [oldest] = ids;
  if (ids.size > MOST_IDS && oldest !== undefined) ids.delete(oldest);
  return true;
}

function count(rows: TenantLedger['rows'], increment: UsageIncrement): void {
  const key = JSON.stringify(KEY.map((name) => increment[name] ?? null));
  const known = rows.get(key);
  rows.set(key, {
    ...dimensionsOf(increment, KEY),
    day: increment.day,
    ...(known ? sum(known, increment) : amountsOf(increment)),
  });
  const [oldest] = rows.keys();
  if (rows.size > MOST_ROWS && oldest !== undefined) rows.delete(oldest);
}

/** Drops what is too old, once a day. */
function sweep(ledger: TenantLedger): void {
  const today = new Date().toISOString().slice(0, 10);
  if (ledger.swept === today) return;
  ledger.swept = today;
  const oldest = new Date(Date.now() - KEPT_MS).toISOString().slice(0, 10);
  for (const [key, { day }] of ledger.rows) if (day < oldest) ledger.rows.delete(key);
}

function sumIn(increments: readonly UsageIncrement[], { quantity }: UsageWindow): number {
  return increments.reduce((total, increment) => total + amountOf(increment, quantity), 0);
}

function isWanted(row: LedgerRow, wanted: Pick<UsageQuery, 'actor' | 'tool' | 'model'>): boolean {
  return (['actor', 'tool', 'model'] as const).every(
    (name) => wanted[name] === undefined || row[name] === wanted[name],
  );
}

function dimensionsOf<Name extends UsageDimension>(
  row: Partial<Record<Name, string>>,
  names: readonly Name[],
): Partial<UsageKey> {
  return Object.fromEntries(
    names.flatMap((name) => (row[name] === undefined ? [] : [[name, row[name]]])),
  );
}

function amountsOf({
  calls,
  answers,
  inputTokens,
  outputTokens,
  usd,
  unpricedAnswers,
}: UsageAmounts): UsageAmounts {
  return { calls, answers, inputTokens, outputTokens, usd, unpricedAnswers };
}

function sum(one: UsageAmounts, two: UsageAmounts): UsageAmounts {
  return {
    calls: one.calls + two.calls,
    answers: one.answers + two.answers,
    inputTokens: one.inputTokens + two.inputTokens,
    outputTokens: one.outputTokens + two.outputTokens,
    usd: one.usd + two.usd,
    unpricedAnswers: one.unpricedAnswers + two.unpricedAnswers,
  };
}

/** Compares by bytes, as a database compares texts without a language. */
function compare(one: readonly string[], two: readonly string[]): number {
  for (const [index, text] of one.entries()) {
    const order = Buffer.compare(Buffer.from(text), Buffer.from(two[index] ?? ''));
    if (order !== 0) return order;
  }
  return 0;
}
