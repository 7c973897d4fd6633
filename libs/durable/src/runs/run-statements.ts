import type { FinishReason, JsonObject, LoopEvent, LoopResult } from '@toolloop/core';
import { type RunEntry, withDates } from '@toolloop/core/internal';
import type { RunRecord, RunStatus } from '@toolloop/core/stores';
import type { NamedStatement, SqlValue } from '../database/database-driver.js';
import { fromLeaseRow, heldBy, inMs, LEASE } from '../database/lease-sql.js';
import { WITH_CALLS } from '../stores/sql-call-journal.js';
import { keyHash } from '../stores/storable.js';

/** The channel on which a run is named that something was written of. */
export const CHANGED = 'toolloop_runs';
/** The columns of a `RunRow`. */
export const COLUMNS = `run_id, tenant, actor_id, loop, request, fork_of, status, finish_reason, waiting_for, ${LEASE}, cancelled, last_sequence, created_at, updated_at`;
/** pg-boss keeps a priority in 32 bits. */
const LAST_TURN = 2_147_483_647;

/**
 * The turn of a queued run: one behind the last of its tenant, but not before the turn that comes next. So tenants take turns, however many runs each has queued, and the
 * runs of a tenant keep their order. Two that are queued at once may get the same turn, which does no harm.
 */
export const NEXT_TURN = `least(${LAST_TURN}, greatest(
  coalesce((select max(turn) from toolloop.runs where tenant = run.tenant and status = 'queued'), 0) + 1,
  coalesce((select min(turn) from toolloop.runs where status = 'queued'), 0)))`;

/** Writes entries and events of the run whose row is `held`: one statement, so that all of it is kept or nothing. */
const WRITTEN = `written as (
    insert into toolloop.run_entries (run_id, key_hash, position, entry)
    select run_id, key_hash, nextval('toolloop.run_entry_positions'), entry
    from held, unnest($4::text[], $5::text[]) with ordinality as entries (key_hash, entry, place) order by place
    on conflict (run_id, key_hash) do update set position = excluded.position, entry = excluded.entry
  ), shown as (
    insert into toolloop.run_events (run_id, sequence, event_count, events)
    select run_id, $3, $6, $7 from held where $6 > 0
    on conflict do nothing
  )`;

/** Adds a run with its lease, and what is written of it at once. */
export const BEGIN: NamedStatement = {
  name: 'toolloop_begin_run',
  text: `
  with held as (
    insert into toolloop.runs (run_id, tenant, actor_id, loop, request, fork_of, status, owner, expires_at, last_sequence)
    values ($1, $2, $8, $9, $10, $11, 'running', $12, ${inMs('$13')}, $3) returning run_id, ${LEASE}
  ), ${WRITTEN}
  select ${LEASE} from held`,
};

/** Holds the row of a run for a write, unless events that come later than those of the write are kept. */
const HELD = `held as (
    update toolloop.runs set updated_at = now(), last_sequence = greatest(last_sequence, $3)
    where run_id = $1 and ${heldBy('$8', '$2')} and ($6 = 0 or last_sequence <= $3) returning run_id
  ), dropped as (
    delete from toolloop.run_entries as entry using held where entry.run_id = held.run_id and entry.key_hash = any($9::text[])
  )`;

/** The hold is looked at, the run marked, and everything written, or nothing is. */
export const WRITE: NamedStatement = {
  name: 'toolloop_write_run',
  text: `
  with ${HELD}, ${WRITTEN}
  select run_id, pg_notify('${CHANGED}', run_id)::text from held`,
};

/** The same, and calls of the run are begun and finished with it. */
export const WRITE_WITH_CALLS: NamedStatement = {
  name: 'toolloop_write_run_and_calls',
  text: `
  with ${HELD}, ${WRITTEN}, ${WITH_CALLS}
  select pg_notify('${CHANGED}', run_id)::text, begun.* from held left join begun on true`,
};

/**
 * The events of a write are one row, under the sequence of the last. `before`: how many there are at least before those of a row; the first row counts as none, since
 * its events may all be known but one, and a page that is short says that there are no more.
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

/** A row of `toolloop.runs`. */
export interface RunRow {
  readonly run_id: string;
  readonly tenant: string;
  readonly actor_id: string;
  readonly loop: string | null;
  readonly request: string | null;
  readonly fork_of: string | null;
  readonly status: RunStatus;
  readonly finish_reason: FinishReason | null;
  readonly waiting_for: NonNullable<LoopResult['waitingFor']> | null;
  readonly owner: string | null;
  readonly epoch: number;
  readonly expires_at: Date | null;
  readonly cancelled: string | null;
  readonly last_sequence: number;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** Reads a run. */
export function fromRunRow(row: RunRow): RunRecord {
  const { owner, epoch, expires_at } = row;
  return {
    runId: row.run_id,
    tenant: row.tenant,
    actorId: row.actor_id,
    ...(row.loop !== null && { loop: row.loop }),
    ...(row.request !== null && { request: JSON.parse(row.request) as JsonObject }),
    ...(row.fork_of !== null && { forkOf: JSON.parse(row.fork_of) as NonNullable<RunRecord['forkOf']> }),
    status: row.status,
    ...(row.finish_reason !== null && { finishReason: row.finish_reason }),
    ...(row.waiting_for !== null && row.status === 'waiting' && { waitingFor: row.waiting_for }),
    ...(row.cancelled !== null && { cancelled: row.cancelled }),
    epoch,
    ...(owner !== null && expires_at && { lease: fromLeaseRow({ owner, epoch, expires_at }) }),
    lastSequence: row.last_sequence,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  };
}

/** The parameters of what is written of a run, from `$3` on. */
export function logged(entries: readonly RunEntry[], events: readonly LoopEvent[]): readonly SqlValue[] {
  return [
    events.at(-1)?.sequence ?? 0,
    entries.map(({ key }) => keyHash(key)),
    entries.map((entry) => JSON.stringify(entry)),
    events.length,
    JSON.stringify(events),
  ];
}

/** Reads an entry. */
export const fromEntryText = (text: string): RunEntry => JSON.parse(text) as RunEntry;

/** Reads the events of one write. */
export function fromEventsText(text: string): readonly LoopEvent[] {
  return (JSON.parse(text) as LoopEvent[]).map(withDates);
}
