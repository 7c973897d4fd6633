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
import { BoundedTable } from './bounded-table.js';

/**
 * Counts usage in memory, for this process only, with 10,000 rows and the last 10,000 ids of each
 * tenant: beyond them the oldest is dropped. Days are kept for 400. Beyond 100,000 counters of
 * windows the least recently used one is dropped.
 */
export class MemoryUsageStore extends UsageStore {
  /** The rows by tenant and dimensions, in the order in which they were first counted. */
  private readonly rows = new BoundedTable<LedgerRow>({
    most: MAX_ROWS,
    isOver: ({ day }) => Date.parse(day) + DAY_MS <= Date.now() - KEPT_MS,
  });
  /** The ids of batches and increments by tenant. */
  private readonly ids = new BoundedTable<true>({ most: MAX_IDS });
  private readonly counters = new BoundedTable<Counter>({ most: MAX_COUNTERS });

  override add({
    batchId,
    tenant,
    increments,
    windows = [],
  }: UsageBatch): Promise<readonly number[]> {
    const isNew = this.remember(tenant, `batch ${batchId}`);
    const added = isNew
      ? increments.filter(({ id }) => id === undefined || this.remember(tenant, `use ${id}`))
      : [];
    for (const increment of added) this.addRow(tenant, increment);
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
    for (const name of tenant === undefined ? this.rows.names() : [tenant])
      for (const row of this.rows.values(name)) yield { ...row, tenant: name };
  }

  /** Returns whether an id is new, and remembers it. */
  private remember(tenant: string, id: string): boolean {
    if (this.ids.get(tenant, id)) return false;
    this.ids.put(tenant, id, true);
    return true;
  }

  private addRow(tenant: string, increment: UsageIncrement): void {
    const key = JSON.stringify(KEY.map((name) => increment[name] ?? null));
    const known = this.rows.get(tenant, key);
    this.rows.put(tenant, key, {
      ...dimensionsOf(increment, KEY),
      day: increment.day,
      ...(known ? sum(known, increment) : amountsOf(increment)),
    });
  }

  private count(tenant: string, { quantity, windowMs }: UsageWindow, amount: number): number {
    const key = JSON.stringify([tenant, quantity, windowMs]);
    const window = Math.floor(Date.now() / windowMs);
    const known = this.counters.get(EVERY_TENANT, key);
    const total = (known?.window === window ? known.total : 0) + amount;
    this.counters.renew(EVERY_TENANT, key, { window, total });
    return total;
  }
}

const MAX_COUNTERS = 100_000;

const MAX_ROWS = 10_000;

const MAX_IDS = 10_000;

const DAY_MS = 86_400_000;

const KEPT_MS = 400 * DAY_MS;

/** The one group of the counters, whose bound is that of all tenants together. */
const EVERY_TENANT = '';

/** The dimensions of a row within its tenant. */
const KEY = ['day', 'actor', 'tool', 'model'] as const satisfies readonly (keyof UsageKey)[];

interface Counter {
  readonly window: number;
  readonly total: number;
}

type LedgerRow = UsageKey & UsageAmounts;

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
