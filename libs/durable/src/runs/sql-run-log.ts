import { randomUUID } from 'node:crypto';
import type { LoopEvent } from '@toolloop/core';
import type { RunEntry } from '@toolloop/core/internal';
import {
  type CallJournal,
  type EventPage,
  type Lease,
  type LeasedRun,
  type LeaseRequest,
  type NewRun,
  type OwedEntry,
  type OwedPage,
  type PutOff,
  type RunHold,
  RunLog,
  RunLostError,
  type RunQuery,
  type RunRecord,
  type RunStatus,
  type RunWrite,
} from '@toolloop/core/stores';
import type { NamedStatement } from '../database/database-driver.js';
import type { Database } from '../database/database.js';
import { fromLeaseRow, heldBy, inMs, type LeaseRow, leaseTo } from '../database/lease-sql.js';
import { type JobQueue, KEEP_JOBS_SECONDS, LOST_AFTER, openJobs } from '../queue/job-queue.js';
import { type BegunRow, leasesOf, SqlCallJournal } from '../stores/sql-call-journal.js';
import { withdrawPending } from '../stores/sql-pending-store.js';
import { RowWatch } from '../database/row-watch.js';
import { isStorable, shownText, storableKey, storedJson } from '../stores/storable.js';
import {
  beginning,
  CHANGED,
  COLUMNS,
  ENTRIES,
  EVENTS,
  EXPIRED,
  NEXT_TURN,
  OWED,
  oweEntries,
  writing,
} from './run-statements.js';
import {
  fromEntryTexts,
  fromEventsText,
  fromOwedText,
  fromRunRow,
  type RunRow,
} from './run-row.js';

/** Keeps runs in SQL, and has pg-boss say whose turn a durable one is. */
export class SqlRunLog extends RunLog {
  private readonly rows: RowWatch<string>;

  constructor(
    private readonly database: Database,
    private readonly jobs: JobQueue,
  ) {
    super();
    this.rows = new RowWatch<string>(database, {
      channel: CHANGED,
      notified: 'written',
      look: (runIds) => this.statesOf(runIds),
      everyMs: LOOK_AGAIN_MS,
      what: 'Events of runs',
    });
  }

  override open(): Promise<void> {
    return this.ready();
  }

  override async add(run: NewRun, status: 'queued' | 'waiting'): Promise<void> {
    await this.ready();
    await this.database.transaction(async () => {
      await this.insert(run, { owner: randomUUID(), forMs: 0 });
      if (status === 'queued') await this.handOut(run.runId);
      else await this.finish(run.runId, { ...run, status, finishReason: status });
    });
  }

  override async begin(run: NewRun, request: LeaseRequest): Promise<Lease> {
    await this.ready();
    return this.insert(run, request);
  }

  override async acquire(
    runId: string,
    { owner, forMs }: LeaseRequest,
    epoch?: number,
  ): Promise<LeasedRun | undefined> {
    if (!isStorable(runId)) return undefined;
    const [row] = await this.database.query<RunRow>(
      `update toolloop.runs set status = 'running', ${leaseTo('$2', '$3')}, updated_at = now()
       where run_id = $1 and epoch = coalesce($4::int, epoch)
         and (status in ('queued', 'waiting') or (expires_at <= clock_timestamp() and owner <> $2))
       returning ${COLUMNS}`,
      [runId, owner, forMs, epoch ?? null],
    );
    const run = row ? fromRunRow(row) : await this.find(runId);
    return run?.lease?.owner === owner ? { ...run, lease: run.lease } : undefined;
  }

  override append(hold: RunHold, { ending, ...write }: RunWrite): ReturnType<RunLog['append']> {
    if (!ending) return this.appendAs(hold, write);
    return this.database.transaction(async () => {
      // its lock is held until the end of the transaction
      const leases = await this.appendAs(hold, write);
      await this.finish(hold.runId, ending);
      return leases;
    });
  }

  override keepsCallsOf(journal: CallJournal): boolean {
    return SqlCallJournal.isOf(journal, this.database);
  }

  override async renew(
    holds: readonly RunHold[],
    forMs: number,
  ): Promise<readonly Pick<RunRecord, 'runId' | 'cancelled'>[]> {
    if (holds.length === 0) return [];
    const rows = await this.database.query<{ run_id: string; cancelled: string | null }>(
      `update toolloop.runs r set expires_at = ${inMs('$4')} from unnest($1::text[], $2::text[], $3::text[]) as held (run_id, owner, epoch)
       where r.run_id = held.run_id and r.owner = held.owner and r.epoch = held.epoch::int returning r.run_id, r.cancelled`,
      [
        holds.map(({ runId }) => runId),
        holds.map(({ owner }) => owner),
        holds.map(({ epoch }) => String(epoch)),
        forMs,
      ],
    );
    return rows.map(({ run_id: runId, cancelled }) =>
      cancelled === null ? { runId } : { runId, cancelled },
    );
  }

  override async release({ runId, owner, epoch }: RunHold, putOff?: PutOff): Promise<void> {
    await this.ready();
    await this.database.transaction(async () => {
      const held = await this.database.query(
        `select 1 from toolloop.runs where run_id = $1 and ${heldBy('$2', '$3')} for update`,
        [runId, owner, epoch],
      );
      if (held.length > 0) await this.handOut(runId, putOff);
    });
  }

  override async requeueExpired(): Promise<number> {
    await this.ready();
    // as nearly always, and every process asks every few seconds
    if ((await this.database.query(EXPIRED)).length === 0) return 0;
    return this.database.transaction(async () => {
      const expired = await this.database.query<{ run_id: string }>(
        `select run_id from toolloop.runs where request is not null and status = 'running' and expires_at <= clock_timestamp()
         order by expires_at limit 100 for update skip locked`,
      );
      for (const row of expired) await this.handOut(row.run_id);
      return expired.length;
    });
  }

  override async wake(runId: string): Promise<void> {
    await this.ready();
    await this.database.transaction(async () => {
      const run = await this.locked(runId);
      if (run?.isIdle) await this.handOut(runId);
      else if (run)
        await this.database.query(`update toolloop.runs set is_woken = true where run_id = $1`, [
          runId,
        ]);
    });
  }

  override async wakeAt(runId: string, at: Date): Promise<void> {
    await this.ready();
    const kept = await this.database.query(
      `insert into toolloop.run_looks (run_id, look_at) select run_id, $2 from toolloop.runs where run_id = $1 and request is not null
       on conflict do nothing returning 1 as kept`,
      [runId, at],
    );
    if (kept.length > 0) await this.jobs.send(QUEUE, { id: LOOK + runId, startAfter: at });
  }

  override async cancel(runId: string, reason: string): Promise<void> {
    await this.ready();
    await this.database.transaction(async () => {
      const run = await this.locked(runId);
      if (!run || run.status === 'ended') return;
      await this.database.query(`update toolloop.runs set cancelled = $2 where run_id = $1`, [
        runId,
        shownText(reason),
      ]);
      if (run.isIdle) await this.handOut(runId);
    });
  }

  override async find(runId: string): Promise<RunRecord | undefined> {
    if (!isStorable(runId)) return undefined;
    const [row] = await this.database.query<RunRow>(
      `select ${COLUMNS} from toolloop.runs where run_id = $1`,
      [runId],
    );
    return row && fromRunRow(row);
  }

  override async list({
    tenant,
    actorId,
    status,
    limit = 100,
    after,
  }: RunQuery): Promise<readonly RunRecord[]> {
    if (![tenant, actorId].every((text) => text === undefined || isStorable(text))) return [];
    const rows = await this.database.query<RunRow>(
      `select ${COLUMNS} from toolloop.runs
       where tenant = $1 and ($2::text is null or actor_id = $2) and ($3::text is null or status = $3)
         and position < coalesce((select position from toolloop.runs where run_id = $4 and tenant = $1 and ($2::text is null or actor_id = $2)), 9223372036854775807)
       order by position desc limit $5`,
      [
        tenant,
        actorId ?? null,
        status ?? null,
        after !== undefined && isStorable(after) ? after : null,
        limit,
      ],
    );
    return rows.map(fromRunRow);
  }

  override async read(runId: string): Promise<readonly RunEntry[]> {
    const rows = await this.database.query<{ entry: string }>(ENTRIES, [runId]);
    return fromEntryTexts(rows.map(({ entry }) => entry));
  }

  override async events(runId: string, { after, limit }: EventPage): Promise<readonly LoopEvent[]> {
    const rows = await this.database.query<{ events: string }>(EVENTS, [runId, after, limit]);
    const events = rows.flatMap((row) => fromEventsText(row.events));
    return events.filter(({ sequence }) => sequence > after).slice(0, limit);
  }

  override async owe(entries: readonly OwedEntry[]): Promise<void> {
    if (entries.length === 0) return;
    const { statement, values } = oweEntries(entries);
    await this.database.query(statement, values);
  }

  override async listOwed({ after, limit }: OwedPage): Promise<readonly OwedEntry[]> {
    const values = [after?.at ?? '', after?.entryId ?? '', limit];
    const rows = await this.database.query<{ entry: string }>(OWED, values);
    return rows.map(({ entry }) => fromOwedText(entry));
  }

  override async settle(entryIds: readonly string[]): Promise<void> {
    await this.database.query(`delete from toolloop.owed_audit where entry_id = any($1::text[])`, [
      entryIds,
    ]);
  }

  override async watch(runId: string, changed: () => void): Promise<() => Promise<void>> {
    const end = await this.rows.watch(runId, changed);
    return () => Promise.resolve(end());
  }

  private async statesOf(
    runIds: readonly string[],
  ): Promise<readonly (readonly [string, string])[]> {
    const rows = await this.database.query<{ run_id: string; state: string }>(
      `select run_id, status || last_sequence as state from toolloop.runs where run_id = any($1::text[])`,
      [runIds],
    );
    const states = new Map(rows.map(({ run_id: runId, state }) => [runId, state]));
    return runIds.map((runId) => [runId, states.get(runId) ?? 'gone'] as const);
  }

  override async work(
    advance: (runId: string) => Promise<void>,
    most: number,
  ): Promise<() => Promise<void>> {
    await this.ready();
    if (this.database.engine === 'pglite') await this.expireAll();
    const handle = (id: string): Promise<void> =>
      id.startsWith(LOOK) ? this.look(id.slice(LOOK.length)) : advance(id.slice(TURN.length));
    return this.jobs.work(QUEUE, { handle, most, mend: () => this.mend() });
  }

  /** Queues a run that still waits, in the turn of its tenant. */
  private async look(runId: string): Promise<void> {
    await this.database.transaction(async () => {
      await this.database.query(
        `delete from toolloop.run_looks where run_id = $1 and look_at <= clock_timestamp()`,
        [runId],
      );
      if ((await this.locked(runId))?.status === 'waiting') await this.handOut(runId);
    });
  }

  /** The tables are the truth, and the queue is not: what it has lost is done all the same. */
  private async mend(): Promise<number> {
    return (await this.requeueLost()) + (await this.lookLost());
  }

  /** Looks at some runs that were to be looked at a while ago. */
  private async lookLost(): Promise<number> {
    const lost = await this.database.query<{ run_id: string }>(
      `delete from toolloop.run_looks where (run_id, look_at) in (
         select run_id, look_at from toolloop.run_looks where look_at < clock_timestamp() - ${LOST_AFTER} order by look_at limit 100 for update skip locked
       ) returning run_id`,
    );
    for (const runId of new Set(lost.map((row) => row.run_id)))
      if ((await this.locked(runId))?.status === 'waiting') await this.handOut(runId);
    return lost.length;
  }

  /** Queues anew some runs that were queued a while ago and have no job. */
  private async requeueLost(): Promise<number> {
    // as nearly always, and every process asks every few seconds
    if ((await this.database.query(LONG_QUEUED)).length === 0) return 0;
    const lost = await this.database.query<{ run_id: string }>(
      `select run_id from toolloop.runs
       where status = 'queued' and updated_at < clock_timestamp() - ${LOST_AFTER} and $2 || run_id in (
         select $2 || run_id from toolloop.runs where status = 'queued' except ${openJobs('$1')}
       ) order by turn limit 100 for update skip locked`,
      [QUEUE, TURN],
    );
    for (const row of lost) await this.handOut(row.run_id);
    return lost.length;
  }

  /** No other process is on an embedded database, so what runs there is of one that is gone. */
  private async expireAll(): Promise<void> {
    await this.database.query(
      `update toolloop.runs set expires_at = ${inMs('0')} where status = 'running'`,
    );
    while ((await this.requeueExpired()) > 0);
  }

  private async insert(
    { runId, entries = [], events = [], ...run }: NewRun,
    { owner, forMs }: LeaseRequest,
  ): Promise<Lease> {
    const values = [
      storableKey(runId, 'id of the run'),
      storableKey(run.tenant, 'tenant'),
      storableKey(run.actorId, 'id of the actor'),
      run.loop ?? null,
      run.request ? storedJson(run.request, 'request') : null,
      run.forkOf ? JSON.stringify(run.forkOf) : null,
      owner,
      forMs,
    ];
    const begun = beginning(values, { entries, events });
    const [row] = await this.database.query<LeaseRow>(begun.statement, begun.values);
    if (!row) throw new Error(`The run ${runId} was not added.`);
    return fromLeaseRow(row);
  }

  private async appendAs(
    hold: RunHold,
    write: Omit<RunWrite, 'ending'>,
  ): ReturnType<RunLog['append']> {
    const { statement, values } = writing(hold, write, this.database.isHeard(CHANGED));
    const rows = await this.database.query<BegunRow>(statement, values);
    if (rows.length === 0) throw new RunLostError(hold);
    return write.calls && leasesOf(write.calls.begun, rows);
  }

  /**
   * Looks at a run that is locked until the caller's transaction is over. An idle one waits, or is
   * put off, so that no one hands it out for now.
   */
  private async locked(
    runId: string,
  ): Promise<{ readonly status: RunStatus; readonly isIdle: boolean } | undefined> {
    const [row] = await this.database.query<Pick<RunRow, 'status' | 'put_offs'>>(
      `select status, put_offs from toolloop.runs where run_id = $1 for update`,
      [runId],
    );
    return (
      row && {
        status: row.status,
        isIdle: row.status === 'waiting' || (row.status === 'queued' && row.put_offs > 0),
      }
    );
  }

  /** Within a transaction: ends a run, or has it wait. */
  private async finish(
    runId: string,
    { status, finishReason, waitingFor }: NonNullable<RunWrite['ending']>,
  ): Promise<void> {
    const [row] = await this.database.query<{ tenant: string; is_due: boolean }>(FINISH, [
      runId,
      status,
      finishReason,
      waitingFor ?? null,
    ]);
    if (status === 'waiting' && row?.is_due) await this.handOut(runId);
    if (status === 'ended' && row)
      await withdrawPending(this.database, [{ tenant: row.tenant, runId }]);
  }

  /**
   * Within a transaction: gives a durable run to any process with room; any other waits for its
   * actor.
   */
  private async handOut(runId: string, putOff?: PutOff): Promise<void> {
    const [row] = await this.database.query<{ status: RunStatus; turn: number }>(
      `update toolloop.runs as run
       set status = case when request is null then 'waiting' else 'queued' end, ${WITHOUT_LEASE}, is_woken = false, updated_at = now(), put_offs = $2,
         turn = case when request is not null then ${NEXT_TURN} end
       where run_id = $1 returning status, turn`,
      [runId, putOff?.times ?? 0],
    );
    const at = putOff && { startAfter: putOff.until };
    if (row?.status === 'queued')
      await this.jobs.send(QUEUE, { id: TURN + runId, priority: -row.turn, ...at });
  }

  /**
   * Its jobs are retried for as long as it takes: a run that cannot be continued is ended, so only
   * the infrastructure rejects.
   */
  private ready(): Promise<void> {
    return this.jobs.ensure(QUEUE, {
      retryLimit: 1_000,
      retryDelay: 1,
      retryBackoff: false,
      expireInSeconds: 6 * 3_600,
      retentionSeconds: KEEP_JOBS_SECONDS,
    });
  }
}

const QUEUE = 'toolloop-runs';
const LOOK_AGAIN_MS = 5_000;
/**
 * The jobs of a run: one for each time it is queued, and one that looks at a waiting run at some
 * time.
 */
const [TURN, LOOK] = ['turn:', 'look:'];

/** Sets the status of a run that its holder has no more. */
const WITHOUT_LEASE = 'owner = null, expires_at = null';

const FINISH: NamedStatement = {
  name: 'toolloop_finish_run',
  text: `
    update toolloop.runs set status = $2, ${WITHOUT_LEASE}, finish_reason = $3, waiting_for = $4, ended_at = case when $2 = 'ended' then now() end
    where run_id = $1 returning tenant, is_woken or cancelled is not null as is_due`,
};

/** Tells if a run has been queued for a while. */
const LONG_QUEUED: NamedStatement = {
  name: 'toolloop_long_queued_runs',
  text: `select 1 as queued from toolloop.runs where status = 'queued' and updated_at < clock_timestamp() - ${LOST_AFTER} limit 1`,
};
