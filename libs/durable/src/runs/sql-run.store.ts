import type { LoopEvent } from '@toolloop/core';
import type { RunEntry } from '@toolloop/core/internal';
import type { NamedStatement } from '../database/database-driver.js';
import type { Database } from '../database/database.js';
import type { JobQueue } from '../queue/job-queue.js';
import { withdrawApprovals } from '../stores/sql-approval.store.js';
import { isStorable, keyHash, shownText, storableKey, storedJson } from '../stores/storable.js';
import {
  type EventPage,
  fromEntryText,
  fromEventsText,
  fromRunRow,
  type HeldRun,
  type NewRun,
  type RunHold,
  RunLostError,
  type RunQuery,
  type RunRecord,
  type RunRow,
  RunStore,
  type RunWrite,
} from './run-store.js';

const QUEUE = 'toolloop-runs';
const CHANGED = 'toolloop_runs';
const COLUMNS =
  'run_id, tenant, actor_id, loop, request, fork_of, status, finish_reason, epoch, cancelled, last_sequence, created_at, updated_at';

/** One statement: the hold is looked at, the run marked, and everything written, or nothing is. */
const WRITE: NamedStatement = {
  name: 'toolloop_write_run',
  text: `
  with held as (
    update toolloop.runs set told_at = now(), updated_at = now(), last_sequence = greatest(last_sequence, $3)
    where run_id = $1 and epoch = $2 and status = 'running' returning run_id
  ), written as (
    insert into toolloop.run_entries (run_id, key_hash, position, entry)
    select run_id, key_hash, nextval('toolloop.run_entry_positions'), entry
    from held, unnest($4::text[], $5::text[]) with ordinality as entries (key_hash, entry, place) order by place
    on conflict (run_id, key_hash) do update set position = excluded.position, entry = excluded.entry
  ), shown as (
    insert into toolloop.run_events (run_id, sequence, event_count, events)
    select run_id, $3, $6, $7 from held where $6 > 0
    on conflict do nothing
  )
  select run_id, pg_notify('${CHANGED}', run_id)::text from held`,
};

/**
 * The events of a write are one row, under the sequence of the last. `before`: how many there are at least before those of a row; the first row counts as none, since
 * its events may all be known but one, and a page that is short says that there are no more.
 */
const EVENTS = `
  with later as (
    select sequence, event_count, events from toolloop.run_events where run_id = $1 and sequence > $2 order by sequence limit $3
  ), counted as (
    select sequence, events,
      sum(event_count) over (order by sequence) - event_count - first_value(event_count) over (order by sequence) as before
    from later
  )
  select events from counted where before < $3 order by sequence`;

/** Keeps durable runs in SQL, and has pg-boss say whose turn it is. */
export class SqlRunStore extends RunStore {
  constructor(
    private readonly database: Database,
    private readonly jobs: JobQueue,
  ) {
    super();
  }

  override open(): Promise<void> {
    return this.ready();
  }

  override async add({ runId, entries = [], ...run }: NewRun, status: 'running' | 'queued'): Promise<RunHold> {
    await this.ready();
    await this.database.transaction(async () => {
      await this.database.query(
        `insert into toolloop.runs (run_id, tenant, actor_id, loop, request, fork_of, status) values ($1, $2, $3, $4, $5, $6, 'running')`,
        [
          storableKey(runId, 'id of the run'),
          storableKey(run.tenant, 'tenant'),
          storableKey(run.actorId, 'id of the actor'),
          run.loop ?? null,
          storedJson(run.request, 'request'),
          run.forkOf ? JSON.stringify(run.forkOf) : null,
        ],
      );
      if (entries.length > 0) await this.writeAs({ runId, epoch: 1 }, entries, []);
      if (status === 'queued') await this.queue(runId);
    });
    return { runId, epoch: 1 };
  }

  override async claim(runId: string): Promise<HeldRun | undefined> {
    const [row] = await this.database.query<RunRow>(
      `update toolloop.runs set status = 'running', epoch = epoch + 1, told_at = now(), updated_at = now()
       where run_id = $1 and status in ('queued', 'waiting') returning ${COLUMNS}`,
      [runId],
    );
    return row && { hold: { runId, epoch: row.epoch }, record: fromRunRow(row) };
  }

  override async write(hold: RunHold, { entries, events, ending }: RunWrite): Promise<void> {
    if (!ending) return this.writeAs(hold, entries, events);
    await this.database.transaction(async () => {
      await this.writeAs(hold, entries, events); // its lock is held until the end of the transaction
      const [row] = await this.database.query<{ tenant: string; is_due: boolean }>(
        `update toolloop.runs set status = $2, finish_reason = $3, ended_at = case when $2 = 'ended' then now() end
         where run_id = $1 returning tenant, is_woken or cancelled is not null as is_due`,
        [hold.runId, ending.status, ending.finishReason],
      );
      if (ending.status === 'waiting' && row?.is_due) await this.queue(hold.runId);
      if (ending.status === 'ended' && row) await withdrawApprovals(this.database, [{ tenant: row.tenant, runId: hold.runId }]);
    });
  }

  override async beat(holds: readonly RunHold[]): Promise<readonly Pick<RunRecord, 'runId' | 'cancelled'>[]> {
    if (holds.length === 0) return [];
    const rows = await this.database.query<{ run_id: string; cancelled: string | null }>(
      `update toolloop.runs r set told_at = now() from unnest($1::text[], $2::text[]) as held (run_id, epoch)
       where r.run_id = held.run_id and r.epoch = held.epoch::int and status = 'running' returning r.run_id, r.cancelled`,
      [holds.map(({ runId }) => runId), holds.map(({ epoch }) => String(epoch))],
    );
    return rows.map(({ run_id: runId, cancelled }) => (cancelled === null ? { runId } : { runId, cancelled }));
  }

  override async release({ runId, epoch }: RunHold): Promise<void> {
    await this.ready();
    await this.database.transaction(async () => {
      const held = await this.database.query(
        `select 1 from toolloop.runs where run_id = $1 and epoch = $2 and status = 'running' for update`,
        [runId, epoch],
      );
      if (held.length > 0) await this.queue(runId);
    });
  }

  override async requeueSilent(silentMs: number): Promise<number> {
    await this.ready();
    return this.database.transaction(async () => {
      const silent = await this.database.query<{ run_id: string }>(
        `select run_id from toolloop.runs where status = 'running' and told_at < now() - $1 * interval '1 millisecond'
         order by told_at limit 100 for update skip locked`,
        [silentMs],
      );
      for (const row of silent) await this.queue(row.run_id);
      return silent.length;
    });
  }

  override async wake(runId: string): Promise<void> {
    await this.ready();
    await this.database.transaction(async () => {
      const status = await this.locked(runId);
      if (status === 'waiting') await this.queue(runId);
      else if (status !== undefined) await this.database.query(`update toolloop.runs set is_woken = true where run_id = $1`, [runId]);
    });
  }

  override async wakeAt(runId: string, at: Date): Promise<void> {
    await this.ready();
    const found = await this.database.query(`select 1 from toolloop.runs where run_id = $1`, [runId]);
    if (found.length > 0) await this.jobs.send(QUEUE, { id: runId, startAfter: at });
  }

  override async cancel(runId: string, reason: string): Promise<void> {
    await this.ready();
    await this.database.transaction(async () => {
      const status = await this.locked(runId);
      if (status === undefined || status === 'ended') return;
      await this.database.query(`update toolloop.runs set cancelled = $2 where run_id = $1`, [runId, shownText(reason)]);
      if (status === 'waiting') await this.queue(runId);
    });
  }

  override async find(runId: string): Promise<RunRecord | undefined> {
    if (!isStorable(runId)) return undefined;
    const [row] = await this.database.query<RunRow>(`select ${COLUMNS} from toolloop.runs where run_id = $1`, [runId]);
    return row && fromRunRow(row);
  }

  override async list({ tenant, actorId, status, limit = 100, after }: RunQuery): Promise<readonly RunRecord[]> {
    if (!isStorable(tenant) || !isStorable(actorId)) return [];
    const rows = await this.database.query<RunRow>(
      `select ${COLUMNS} from toolloop.runs
       where tenant = $1 and actor_id = $2 and ($3::text is null or status = $3)
         and position < coalesce((select position from toolloop.runs where run_id = $4 and tenant = $1 and actor_id = $2), 9223372036854775807)
       order by position desc limit $5`,
      [tenant, actorId, status ?? null, after !== undefined && isStorable(after) ? after : null, limit],
    );
    return rows.map(fromRunRow);
  }

  override async entries(runId: string): Promise<readonly RunEntry[]> {
    const rows = await this.database.query<{ entry: string }>(
      `select entry from toolloop.run_entries where run_id = $1 order by position`,
      [runId],
    );
    return rows.map(({ entry }) => fromEntryText(entry));
  }

  override async events(runId: string, { after, limit }: EventPage): Promise<readonly LoopEvent[]> {
    const rows = await this.database.query<{ events: string }>(EVENTS, [runId, after, limit]);
    const events = rows.flatMap((row) => fromEventsText(row.events));
    return events.filter(({ sequence }) => sequence > after).slice(0, limit);
  }

  override watch(runId: string, changed: () => void): Promise<() => Promise<void>> {
    return this.database.listen(CHANGED, (payload) => {
      if (payload === runId) changed();
    });
  }

  override async work(advance: (runId: string) => Promise<void>, most: number): Promise<() => Promise<void>> {
    await this.ready();
    if (this.database.engine === 'pglite') await this.requeueSilent(0); // nobody else is on it: what runs is of a process that is gone
    return this.jobs.work(QUEUE, advance, most);
  }

  private async writeAs(hold: RunHold, entries: readonly RunEntry[], events: readonly LoopEvent[]): Promise<void> {
    const rows = await this.database.query(WRITE, [
      hold.runId,
      hold.epoch,
      events.at(-1)?.sequence ?? 0,
      entries.map(({ key }) => keyHash(key)),
      entries.map((entry) => JSON.stringify(entry)),
      events.length,
      JSON.stringify(events),
    ]);
    if (rows.length === 0) throw new RunLostError(hold);
  }

  /** Its status; whoever writes or ends the run waits until the caller's transaction is over. */
  private async locked(runId: string): Promise<string | undefined> {
    const [row] = await this.database.query<{ status: string }>(`select status from toolloop.runs where run_id = $1 for update`, [runId]);
    return row?.status;
  }

  /** Has somebody go on with a run; within a transaction. */
  private async queue(runId: string): Promise<void> {
    await this.database.query(`update toolloop.runs set status = 'queued', is_woken = false, updated_at = now() where run_id = $1`, [
      runId,
    ]);
    await this.jobs.send(QUEUE, { id: runId });
  }

  /** Its jobs are retried for as long as it takes: what cannot go on is ended, so whatever rejects is the infrastructure. */
  private ready(): Promise<void> {
    return this.jobs.ensure(QUEUE, { retryLimit: 1_000, retryDelay: 1, retryBackoff: false, expireInSeconds: 6 * 3_600 });
  }
}
