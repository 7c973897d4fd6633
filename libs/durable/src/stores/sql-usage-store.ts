import {
  type UsageBatch,
  type UsageDimension,
  type UsageIncrement,
  type UsageQuery,
  type UsageRow,
  usageSortKey,
  UsageStore,
  type UsageWindow,
} from '@toolloop/core/stores';
import type { NamedStatement } from '../database/database-driver.js';
import type { Database } from '../database/database.js';
import { fromTextJson, isStorable, keyHash, storableKey } from './storable.js';

/** Counts in SQL what tenants use, for all processes together. */
export class SqlUsageStore extends UsageStore {
  constructor(private readonly database: Database) {
    super();
  }

  override async add({
    batchId,
    tenant,
    increments,
    windows = [],
  }: UsageBatch): Promise<readonly number[]> {
    const known = new Set<string>();
    const once = increments.filter(
      ({ id }) => id === undefined || (!known.has(id) && known.add(id)),
    );
    const values = [
      storableKey(tenant, 'tenant'),
      keyHash('batch', batchId),
      JSON.stringify(once.map(toRow)),
      JSON.stringify(windows.map(({ quantity, windowMs }) => ({ quantity, window_ms: windowMs }))),
    ];
    return totalsOf(windows, await this.database.query<Counter>(ADD, values));
  }

  override async totals(
    tenant: string,
    windows: readonly UsageWindow[],
  ): Promise<readonly number[]> {
    if (windows.length === 0) return [];
    const rows = await this.database.query<Counter>(
      `select quantity, q.window_ms::float8 as window_ms, used
       from toolloop.quotas q join unnest($2::text[], $3::bigint[]) as w (quantity, window_ms) using (quantity, window_ms)
       where tenant = $1 and "window" = ${WINDOW('q.window_ms')}`,
      [
        storableKey(tenant, 'tenant'),
        windows.map(({ quantity }) => quantity),
        windows.map(({ windowMs }) => String(windowMs)),
      ],
    );
    return totalsOf(windows, rows);
  }

  override async report({
    tenant,
    from,
    to,
    groupBy,
    limit,
    after,
    ...wanted
  }: UsageQuery): Promise<readonly UsageRow[]> {
    if (tenant !== undefined && !isStorable(tenant)) return [];
    const values: (string | number)[] = [from, to, limit];
    const param = (value: string): string => `$${values.push(value)}`;
    const filters = (['actor', 'tool', 'model'] as const).flatMap((name) => {
      const value = wanted[name];
      return value === undefined ? [] : [`${name} = ${param(usageSortKey(value))}`];
    });
    if (tenant !== undefined) filters.push(`tenant = ${param(tenant)}`);
    const columns = groupBy.map(columnOf);
    if (after && columns.length > 0)
      filters.push(`(${columns.join(', ')}) > (${after.map(param).join(', ')})`);
    const names = columns
      .map((column, index) => `${column} as "${groupBy[index] ?? ''}", `)
      .join('');
    const rows = await this.database.query<Amounts & Names>(
      `select ${names}${each((name) => `sum(${name}) as ${name}`)} from toolloop.usage
       where ${['day between $1::date and $2::date', ...filters].join(' and ')}
       ${columns.length > 0 ? `group by ${columns.join(', ')} order by ${columns.join(', ')}` : 'having count(*) > 0'} limit $3`,
      values,
    );
    return rows.map((row) => Object.assign(namesIn(row, groupBy), amountsIn(row)));
  }
}

const AMOUNTS = [
  'calls',
  'answers',
  'input_tokens',
  'output_tokens',
  'usd',
  'unpriced_answers',
] as const;

const each = (write: (name: string) => string): string => AMOUNTS.map(write).join(', ');

/** The database's clock, so that processes whose own differ count the same window. */
const WINDOW = (ms: string): string =>
  `floor(extract(epoch from clock_timestamp()) * 1000 / ${ms})::bigint`;

/**
 * One statement, so that the ids, the days and the windows are written together or not at all. Rows
 * are written in one order, so that two who add at once do not block each other.
 */
const ADD: NamedStatement = {
  name: 'toolloop_add_usage',
  text: `
  with given as (
    select * from json_to_recordset($3::json)
      as g (id_hash text, day date, key_hash text, actor text, tool text, model text, ${each((name) => `${name} float8`)})
  ), batch as (
    insert into toolloop.usage_ids (tenant, id_hash) values ($1, $2) on conflict do nothing returning id_hash
  ), fresh as (
    insert into toolloop.usage_ids (tenant, id_hash)
    select $1, id_hash from given where id_hash is not null and exists (select from batch) order by id_hash
    on conflict do nothing returning id_hash
  ), added as (
    select * from given where exists (select from batch) and (id_hash is null or id_hash in (select id_hash from fresh))
  ), days as (
    insert into toolloop.usage as u (tenant, day, key_hash, actor, tool, model, ${each((name) => name)})
    select $1, day, key_hash, actor, tool, model, ${each((name) => `sum(${name})`)}
    from added group by day, key_hash, actor, tool, model order by day, key_hash
    on conflict (tenant, day, key_hash) do update set ${each((name) => `${name} = u.${name} + excluded.${name}`)}
  ), counted as (
    insert into toolloop.quotas as q (tenant, quantity, window_ms, "window", used)
    select $1, quantity, window_ms, ${WINDOW('window_ms')}, (
      select coalesce(sum(case quantity when 'calls' then calls when 'tokens' then input_tokens + output_tokens else usd end), 0) from added
    )
    from json_to_recordset($4::json) as w (quantity text, window_ms bigint) order by quantity, window_ms
    on conflict (tenant, quantity, window_ms, "window") do update set used = q.used + excluded.used
    returning quantity, window_ms, used
  )
  select quantity, window_ms::float8 as window_ms, used from counted`,
};

interface Counter {
  readonly quantity: string;
  readonly window_ms: number;
  readonly used: number;
}

type Names = Partial<Record<UsageDimension, string>>;
type Amounts = Readonly<Record<(typeof AMOUNTS)[number], number>>;

/**
 * Names are compared by the bytes of their JSON, in which all but the day and the tenant are kept,
 * since it holds every text.
 */
function columnOf(name: UsageDimension): string {
  if (name === 'tenant') return 'to_json(tenant)::text collate "C"';
  return name === 'day' ? `to_json(to_char(day, 'YYYY-MM-DD'))::text collate "C"` : name;
}

function toRow({ id, day, actor, tool, model, ...amounts }: UsageIncrement): object {
  const { calls, answers, inputTokens, outputTokens, usd, unpricedAnswers } = amounts;
  const names = {
    actor: usageSortKey(actor),
    tool: usageSortKey(tool),
    model: usageSortKey(model),
  };
  return {
    id_hash: id === undefined ? null : keyHash('use', id),
    day,
    key_hash: keyHash(names.actor, names.tool, names.model),
    ...names,
    calls,
    answers,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    usd,
    unpriced_answers: unpricedAnswers,
  };
}

function totalsOf(windows: readonly UsageWindow[], rows: readonly Counter[]): readonly number[] {
  return windows.map(
    ({ quantity, windowMs }) =>
      rows.find((row) => row.quantity === quantity && row.window_ms === windowMs)?.used ?? 0,
  );
}

function namesIn(row: Names, groupBy: readonly UsageDimension[]): Names {
  return Object.fromEntries(
    groupBy.flatMap((name) => {
      const text = row[name];
      return text === undefined || text === 'null' ? [] : [[name, fromTextJson(text)]];
    }),
  );
}

function amountsIn(row: Amounts): Omit<UsageRow, UsageDimension> {
  const { calls, answers, usd } = row;
  return {
    calls,
    answers,
    inputTokens: row.input_tokens,
    outputTokens: row.output_tokens,
    usd,
    unpricedAnswers: row.unpriced_answers,
  };
}
