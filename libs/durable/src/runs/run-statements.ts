import type { RunEntry } from '@toolloop/core/internal';
import type { OwedEntry, RunHold, RunWrite } from '@toolloop/core/stores';
import type { NamedStatement, SqlValue } from '../database/database-driver.js';
import { LEASE, heldBy, inMs } from '../database/lease-sql.js';
import {
  BEGUN_COLUMNS,
  FINISHED_COLUMNS,
  beginCalls,
  begunRow,
  finishCalls,
  finishedRow,
} from '../stores/sql-call-journal.js';
import { keyHash } from '../stores/storable.js';

/** The channel on which a run is named that something was written of. */
export const CHANGED = 'toolloop_runs';
/** The columns of a `RunRow`. */
export const COLUMNS = `run_id, tenant, actor_id, loop, request, fork_of, status, finish_reason, waiting_for, ${LEASE}, cancelled, put_offs, last_sequence, created_at, updated_at`;
/** pg-boss keeps a priority in 32 bits. */
const LAST_TURN = 2_147_483_647;

/**
 * The turn of a queued run: one behind the last of its tenant, but not before the turn that comes
 * next. So tenants take turns, however many runs each has queued, and the runs of a tenant keep
 * their order. Two that are queued at once may get the same turn, which does no harm.
 */
export const NEXT_TURN = `least(${LAST_TURN}, greatest(
  coalesce((select max(turn) from toolloop.runs where tenant = run.tenant and status = 'queued'), 0) + 1,
  coalesce((select min(turn) from toolloop.runs where status = 'queued'), 0)))`;

/**
 * The parts of a write, whose statement says nothing of those that it lacks: each of them costs the
 * server as much as a row.
 */
interface WriteShape {
  /** Set where the run is added: the statement holds its row as it makes it. */
  readonly isFirst: boolean;
  readonly hasEvents: boolean;
  readonly entries: number;
  readonly dropped: number;
  readonly begun: number;
  readonly finished: number;
  readonly owed: number;
  /** Set where a notification of the write may be heard. */
  readonly isHeard: boolean;
}

/** A statement with its parameters. */
export interface BoundStatement {
  readonly statement: NamedStatement;
  readonly values: readonly SqlValue[];
}

/** Adds a run with its lease. The parameters are the first values of `beginning`. */
const ADDED = `insert into toolloop.runs (run_id, tenant, actor_id, loop, request, fork_of, status, owner, expires_at, last_sequence)
    values ($1, $2, $3, $4, $5, $6, 'running', $7, ${inMs('$8')}, $9) returning run_id, writes, ${LEASE}`;

/**
 * Holds the row of a run for a write, unless events that come later than those of the write are
 * kept.
 */
const HELD = `update toolloop.runs set updated_at = now(), writes = writes + 1, last_sequence = greatest(last_sequence, $4)
    where run_id = $1 and ${heldBy('$2', '$3')} and ($4 = 0 or last_sequence <= $4) returning run_id, writes`;

/** A write has a million places for what it adds, in the order in which that came. */
const PLACES = 1_048_576;
const ENTRY_COLUMNS = ['key_hash', 'entry'];
const OWED_COLUMNS = ['entry_id', 'at', 'entry'];

/** The parameters of statements, counted as they are used. */
class Parameters {
  constructor(private count: number) {}

  next(): string {
    this.count += 1;
    return `$${this.count}`;
  }

  /**
   * A table of so many rows. Those of a single one are parameters of their own, which costs less
   * than lists.
   */
  table(rows: number, name: string, columns: readonly string[]): string {
    if (rows === 1)
      return `(select ${columns.map((column) => `${this.next()}::text as ${column}`).join(', ')}, 1 as place) as ${name}`;
    return `unnest(${columns.map(() => `${this.next()}::text[]`).join(', ')}) with ordinality as ${name} (${columns.join(', ')}, place)`;
  }
}

/** Returns the parameters of such a table. */
function tableValues(rows: readonly (readonly string[])[]): readonly SqlValue[] {
  const [first, ...others] = rows;
  if (!first || others.length === 0) return first ?? [];
  return first.map((_, column) => rows.map((row) => row[column] ?? ''));
}

/**
 * One statement, so that all of it is kept or nothing. What a step ends with is kept in the row of
 * the events of its write; what may be dropped has a row of its own.
 */
function partsOf(shape: WriteShape): readonly string[] {
  const { isFirst, hasEvents, entries, dropped, begun, finished, owed } = shape;
  const parameters = new Parameters(isFirst ? 9 : 4);
  const place = `held.writes * ${PLACES}::bigint`;
  return [
    `held as (${isFirst ? ADDED : HELD})`,
    hasEvents &&
      `shown as (
    insert into toolloop.run_events (run_id, sequence, position, event_count, events, ends)
    select run_id, ${isFirst ? '$9' : '$4'}, ${place}, ${parameters.next()}, ${parameters.next()}, ${parameters.next()} from held on conflict do nothing
  )`,
    entries > 0 &&
      `written as (
    insert into toolloop.run_entries (run_id, key_hash, position, entry)
    select run_id, key_hash, ${place} + place, entry from held, ${parameters.table(entries, 'entries', ENTRY_COLUMNS)}
    on conflict (run_id, key_hash) do update set position = excluded.position, entry = excluded.entry
  )`,
    dropped > 0 &&
      `dropped as (
    delete from toolloop.run_entries as entry using held where entry.run_id = held.run_id and entry.key_hash = any(${parameters.next()}::text[])
  )`,
    owed > 0 &&
      `owing as (
    insert into toolloop.owed_audit (entry_id, at, entry)
    select entry_id, at, owed.entry from held, ${parameters.table(owed, 'owed', OWED_COLUMNS)} on conflict do nothing
  )`,
    begun > 0 && beginCalls(parameters.table(begun, 'call', BEGUN_COLUMNS)),
    finished > 0 && finishCalls(parameters.table(finished, 'done', FINISHED_COLUMNS)),
  ].filter((part) => part !== false);
}

const statements = new Map<string, NamedStatement>();

/**
 * The statement of a shape. A session keeps each that it was asked, so lists of any length have the
 * same.
 */
function statementOf(shape: WriteShape): NamedStatement {
  const { isFirst, hasEvents, isHeard } = shape;
  const rows = [shape.entries, shape.begun, shape.finished, shape.owed]
    .map((count) => Math.min(count, 2))
    .join('');
  const name = `toolloop_write_run_${Number(isFirst)}${Number(hasEvents)}${Number(isHeard)}${Math.min(shape.dropped, 1)}${rows}`;
  const known = statements.get(name);
  if (known) return known;
  const told = isHeard ? `, pg_notify('${CHANGED}', run_id)::text` : '';
  const selected = isFirst ? LEASE : `run_id${told}${shape.begun > 0 ? ', begun.*' : ''}`;
  const text = `with ${partsOf(shape).join(', ')} select ${selected} from held${shape.begun > 0 ? ' left join begun on true' : ''}`;
  const made = { name, text };
  statements.set(name, made);
  return made;
}

/**
 * Returns the statement that adds a run with its lease, and what is written of it at once. The
 * first values are those of `ADDED`, up to the lease.
 */
export function beginning(
  values: readonly SqlValue[],
  write: Pick<RunWrite, 'entries' | 'events'>,
): BoundStatement {
  return bound(values, write, { isFirst: true, isHeard: false });
}

/**
 * Returns the statement of a write: the hold is looked at, the run marked, and everything written,
 * or nothing is. Calls of the run are begun and finished with it.
 */
export function writing(
  { runId, owner, epoch }: RunHold,
  write: RunWrite,
  isHeard: boolean,
): BoundStatement {
  return bound([runId, owner, epoch], write, { isFirst: false, isHeard });
}

function bound(
  first: readonly SqlValue[],
  { entries, events, dropped = [], calls, owed }: RunWrite,
  how: Pick<WriteShape, 'isFirst' | 'isHeard'>,
): BoundStatement {
  const places = events.length > 0 ? entries.findIndex((entry) => !isEnd(entry)) : 0;
  const ends = entries.slice(0, places < 0 ? entries.length : places);
  const rows = entries
    .slice(ends.length)
    .map((entry) => [keyHash(entry.key), JSON.stringify(entry)]);
  const [begun, finished] = calls
    ? [calls.begun.map(begunRow), calls.finished.map(finishedRow)]
    : [[], []];
  const untaken = owedRows(owed);
  const values = [
    ...first,
    events.at(-1)?.sequence ?? 0,
    ...(events.length > 0
      ? [events.length, JSON.stringify(events), ends.length > 0 ? JSON.stringify(ends) : null]
      : []),
    ...tableValues(rows),
    ...(dropped.length > 0 ? [dropped.map((key) => keyHash(key))] : []),
    ...tableValues(untaken),
    ...tableValues(begun),
    ...tableValues(finished),
  ];
  const counts = {
    entries: rows.length,
    dropped: dropped.length,
    begun: begun.length,
    finished: finished.length,
    owed: untaken.length,
  };
  return { statement: statementOf({ ...how, ...counts, hasEvents: events.length > 0 }), values };
}

function owedRows(entries: readonly OwedEntry[] = []): readonly (readonly string[])[] {
  return entries.map((entry) => [entry.entryId, entry.at, JSON.stringify(entry)]);
}

/** Returns the statement that keeps entries which the audit has not taken. */
export function oweEntries(entries: readonly OwedEntry[]): BoundStatement {
  const rows = owedRows(entries);
  const table = new Parameters(0).table(rows.length, 'owed', OWED_COLUMNS);
  const text = `insert into toolloop.owed_audit (entry_id, at, entry) select entry_id, at, entry from ${table} on conflict do nothing`;
  return {
    statement: { name: `toolloop_owe_audit_${Math.min(rows.length, 2)}`, text },
    values: tableValues(rows),
  };
}

/** The entries that the audit has not taken, behind one of them. */
export const OWED: NamedStatement = {
  name: 'toolloop_owed_audit',
  text: `select entry from toolloop.owed_audit where (at, entry_id) > ($1, $2) order by at, entry_id limit $3`,
};

/** Tells if a step, a part of a run or the run ends with the entry, which is never dropped then. */
function isEnd({ type }: RunEntry): boolean {
  return type === 'step' || type === 'wait' || type === 'end';
}

/**
 * The entries of a run. Those that are not in the row of their write are dropped once a step is
 * over, or came without an event.
 */
export const ENTRIES = `
  select position, entry from toolloop.run_entries where run_id = $1
  union all select position, ends from toolloop.run_events where run_id = $1 and ends is not null order by position`;

/**
 * The events of a write are one row, under the sequence of the last. `before`: how many there are
 * at least before those of a row; the first row counts as none, since its events may all be known
 * but one, and a page that is short says that there are no more.
 */
export const EVENTS = `
  with later as (
    select sequence, event_count, events from toolloop.run_events where run_id = $1 and sequence > $2 order by sequence limit $3
  ), counted as (
    select sequence, events,
      sum(event_count) over (order by sequence) - event_count - first_value(event_count) over (order by sequence) as before
    from later
  )
  select events from counted where before < $3 order by sequence`;

/** Tells if a durable run has a lease that is over. */
export const EXPIRED: NamedStatement = {
  name: 'toolloop_expired_runs',
  text: `select 1 as expired from toolloop.runs where request is not null and status = 'running' and expires_at <= clock_timestamp() limit 1`,
};
