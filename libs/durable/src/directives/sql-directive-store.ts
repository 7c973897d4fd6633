import { randomUUID } from 'node:crypto';
import { type OnModuleInit } from '@nestjs/common';
import type { JsonValue } from '@toolloop/core';
import type { DirectiveEvent, DirectiveEventType } from '@toolloop/core/directives';
import { Logger, toDirectiveEvent } from '@toolloop/core/internal';
import {
  acquirableAt,
  type AddedDirective,
  type DirectiveChange,
  type DirectiveHold,
  type DirectiveIntent,
  type DirectiveQuery,
  type DirectiveRecord,
  type DirectiveReference,
  DirectiveStore,
  type DirectiveVersion,
  type LeasedDirective,
  type LeaseRequest,
  type StopWork,
} from '@toolloop/core/stores';
import type { ToolFailure } from '@toolloop/protocol';
import { Observable, Subject } from 'rxjs';
import type { SqlValue } from '../database/database-driver.js';
import type { Database } from '../database/database.js';
import { fromLeaseRow, heldBy, inMs, LEASE, leaseTo } from '../database/lease-sql.js';
import { type JobQueue, KEEP_JOBS_SECONDS, LOST_AFTER, openJobs } from '../queue/job-queue.js';
import { isStorable, keyHash, storableKey, storedJson } from '../stores/storable.js';

/**
 * Keeps directives in SQL. The row is the truth, what failed for good included; every change that
 * leaves one to be looked at writes a job that says when, in its own transaction. A job that was
 * handed out without its row changing is written again.
 */
export class SqlDirectiveStore extends DirectiveStore implements OnModuleInit {
  override readonly changes$: Observable<DirectiveEvent>;
  private readonly logger = new Logger(SqlDirectiveStore.name);
  private readonly feed: DirectiveFeed;
  private readonly openedAt = new Date();

  constructor(
    private readonly database: Database,
    private readonly jobs: JobQueue,
  ) {
    super();
    this.feed = new DirectiveFeed(database);
    this.changes$ = this.feed.changes$;
  }

  /**
   * Makes the queue ready before runs are taken up: the first directive may be asked for within a
   * transaction, where that cannot be done.
   */
  async onModuleInit(): Promise<void> {
    await this.ready();
  }

  /** @throws {Error} For an id that belongs to a directive with another key. */
  override async add(
    intent: DirectiveIntent,
    first?: () => Promise<void>,
  ): Promise<AddedDirective> {
    const { tenant, directiveId, key, subject, authority } = intent;
    const record = await this.put(
      'requested',
      0,
      `
      insert into toolloop.directives (tenant, directive_id, key_hash, subject_hash, actor_hash, intent, due_at, updated_at)
      values ($1, $2, $3, $4, $5, $6, ${inMs('0')}, clock_timestamp()) on conflict do nothing returning ${COLUMNS}`,
      [
        storableKey(tenant, 'tenant'),
        storableKey(directiveId, 'id of the directive'),
        keyHash(key),
        keyHash(subject),
        keyHash(authority.actorId),
        storedJson(intent, 'directive'),
      ],
      first,
    );
    if (record) return { record, isNew: true };
    const known = await this.one('key_hash', tenant, keyHash(key));
    if (!known)
      throw new Error(
        `The id ${directiveId} belongs to a directive with another key, or the one with this key was just deleted.`,
      );
    return { record: known, isNew: false };
  }

  override async find({
    tenant,
    directiveId,
  }: DirectiveReference): Promise<DirectiveRecord | undefined> {
    if (!isStorable(tenant) || !isStorable(directiveId)) return undefined;
    return this.one('directive_id', tenant, directiveId);
  }

  override async list({
    tenant,
    status,
    subject,
    actorId,
    limit = 100,
    after,
  }: DirectiveQuery): Promise<readonly DirectiveRecord[]> {
    if (!isStorable(tenant)) return [];
    const rows = await this.database.query<DirectiveRow>(
      `select ${COLUMNS} from toolloop.directives
       where tenant = $1 and ($2::text is null or status = $2) and ($3::text is null or subject_hash = $3) and ($4::text is null or actor_hash = $4)
         and position < coalesce((select position from toolloop.directives where tenant = $1 and directive_id = $5), 9223372036854775807)
       order by position desc limit $6`,
      [
        tenant,
        status ?? null,
        subject === undefined ? null : keyHash(subject),
        actorId === undefined ? null : keyHash(actorId),
        after !== undefined && isStorable(after) ? after : null,
        limit,
      ],
    );
    return rows.map(fromDirectiveRow);
  }

  override async acquire(
    { tenant, directiveId }: DirectiveReference,
    { owner, forMs }: LeaseRequest,
  ): Promise<LeasedDirective | undefined> {
    if (!isStorable(tenant) || !isStorable(directiveId)) return undefined;
    const acquired = await this.put(
      'started',
      forMs,
      `
      update toolloop.directives
      set status = 'performing', attempts = attempts + 1, due_at = null, ${leaseTo('$3', '$4')}, updated_at = clock_timestamp()
      where ${NAMED} and (due_at <= clock_timestamp() or (expires_at <= clock_timestamp() and owner <> $3)) returning ${COLUMNS}`,
      [tenant, directiveId, owner, forMs],
    );
    const record = acquired ?? (await this.one('directive_id', tenant, directiveId));
    return record?.lease?.owner === owner ? { ...record, lease: record.lease } : undefined;
  }

  /**
   * The job that was written with the lease comes at its former end, and is then written again for
   * this one.
   */
  override async renew(
    { tenant, directiveId, owner, epoch }: DirectiveHold,
    forMs: number,
  ): Promise<boolean> {
    if (!isStorable(tenant) || !isStorable(directiveId)) return false;
    const held = await this.database.query(
      `update toolloop.directives set expires_at = ${inMs('$5')} where ${NAMED} and ${heldBy('$3', '$4')} returning tenant`,
      [tenant, directiveId, owner, epoch, forMs],
    );
    return held.length > 0;
  }

  override async change(
    from: DirectiveVersion,
    { event, dueInMs, lease, ...change }: DirectiveChange,
  ): Promise<DirectiveRecord | undefined> {
    if (!isStorable(from.tenant) || !isStorable(from.directiveId)) return undefined;
    const { status, task, attempts, putOffs, result, failure } = change;
    return this.put(
      event,
      lease?.forMs ?? dueInMs ?? 0,
      `
      update toolloop.directives
      set status = $5, task = coalesce($6, task), attempts = coalesce($7::int, attempts), put_offs = coalesce($14::int, 0), due_at = ${inMs('$8')}, result = coalesce($9, result),
        failure = $10, owner = $11, epoch = case when $11::text is null then epoch else epoch + 1 end, expires_at = ${inMs('$12')},
        updated_at = clock_timestamp()
      where ${NAMED} and status = $3 and epoch = $4 and owner is not distinct from $13 returning ${COLUMNS}`,
      [
        from.tenant,
        from.directiveId,
        from.status,
        from.epoch,
        status,
        orNull(task),
        orNull(attempts),
        orNull(dueInMs),
        result === undefined ? null : storedJson(result, 'result'),
        failure ? storedJson(failure, 'failure') : null,
        orNull(lease?.owner),
        orNull(lease?.forMs),
        orNull(from.owner),
        orNull(putOffs),
      ],
    );
  }

  override async work(
    perform: (reference: DirectiveReference) => Promise<void>,
    concurrency: number,
  ): Promise<StopWork> {
    await this.ready();
    if (this.database.engine === 'pglite') await this.takeOver();
    const inHand = new Set<Promise<void>>();
    let hasStopped = false;
    const handle = async (id: string): Promise<void> => {
      if (hasStopped) throw new Error('It is left to another process: this one is stopping.');
      const turn = this.turn(id, perform);
      inHand.add(turn);
      await turn.finally(() => inHand.delete(turn));
    };
    const stop = await this.jobs.work(QUEUE, {
      handle,
      most: concurrency,
      mend: () => this.sendLost(),
    });
    return async () => {
      hasStopped = true;
      await stop();
      await Promise.allSettled(inHand);
    };
  }

  /** One job. */
  private async turn(
    id: string,
    perform: (reference: DirectiveReference) => Promise<void>,
  ): Promise<void> {
    const { tenant, directiveId, dueAt } = fromJobId(id);
    try {
      await perform({ tenant, directiveId });
      const [unchanged] = await this.database.query<UnchangedRow>(
        `select coalesce(expires_at, due_at) as at, greatest(expires_at, due_at, clock_timestamp() + interval '1 second') as again_at
         from toolloop.directives where ${NAMED} and (coalesce(expires_at, due_at) = $3 or expires_at > $3)`,
        [tenant, directiveId, new Date(dueAt)],
      );
      if (!unchanged) return;
      const again = toJobId({ tenant, directiveId, dueAt: unchanged.at.toISOString() });
      await this.jobs.send(QUEUE, { id: again, startAfter: unchanged.again_at });
    } catch (error) {
      this.logger.error(
        `The directive ${directiveId} could not be processed; it is tried again.`,
        error,
      );
      throw error;
    }
  }

  /**
   * No other process is on an embedded database, so what was begun before this process is of one
   * that is gone: its lease expires at once.
   */
  private async takeOver(): Promise<void> {
    await this.database.transaction(async () => {
      const left = await this.database.query<DirectiveRow>(
        `update toolloop.directives set expires_at = ${inMs('0')} where status = 'performing' and updated_at < $1 returning ${COLUMNS}`,
        [this.openedAt],
      );
      for (const row of left) await this.send(fromDirectiveRow(row), 0);
    });
  }

  /**
   * Sends a job for some directives that have been due for a while, or whose lease has expired, and
   * that have none.
   */
  private async sendLost(): Promise<number> {
    const lost = await this.database.query<DirectiveRow>(
      `select ${COLUMNS} from toolloop.directives where ${IS_OVERDUE} and (tenant, directive_id) in (
         select tenant, directive_id from toolloop.directives where ${IS_OVERDUE}
         except select id::json->>0, id::json->>1 from (${openJobs('$1')}) as jobs
       ) limit 100 for update skip locked`,
      [QUEUE],
    );
    for (const row of lost) await this.send(fromDirectiveRow(row), 0);
    return lost.length;
  }

  private async put(
    event: DirectiveEventType,
    dueInMs: number,
    statement: string,
    values: readonly SqlValue[],
    first?: () => Promise<void>,
  ): Promise<DirectiveRecord | undefined> {
    await this.ready();
    const keep = async (): Promise<DirectiveRecord | undefined> => {
      await first?.();
      const [row] = await this.database.query<DirectiveRow>(statement, values);
      if (!row) return undefined;
      const record = fromDirectiveRow(row);
      await this.send(record, dueInMs);
      return record;
    };
    return this.feed.tell(keep, (record) => record && toDirectiveEvent(event, record));
  }

  /**
   * Writes the job of a directive that is due some time; of one that is due now without a time,
   * since that wakes a process at once.
   */
  private async send(record: DirectiveRecord, dueInMs: number): Promise<void> {
    const { tenant, directiveId } = record.intent;
    const dueAt = acquirableAt(record);
    if (dueAt === undefined) return;
    await this.jobs.send(QUEUE, {
      id: toJobId({ tenant, directiveId, dueAt }),
      ...(dueInMs > 0 && { startAfter: new Date(dueAt) }),
    });
  }

  private async one(
    column: 'directive_id' | 'key_hash',
    tenant: string,
    value: string,
  ): Promise<DirectiveRecord | undefined> {
    const [row] = await this.database.query<DirectiveRow>(
      `select ${COLUMNS} from toolloop.directives where tenant = $1 and ${column} = $2`,
      [tenant, value],
    );
    return row && fromDirectiveRow(row);
  }

  private ready(): Promise<void> {
    return this.jobs.ensure(QUEUE, JOBS);
  }
}

const QUEUE = 'toolloop-directives';
/**
 * Whatever rejects is the infrastructure, and no job is given up for its age: a directive waits for
 * as long as no process performs any.
 */
const JOBS = {
  retryLimit: 1_000,
  retryDelay: 1,
  retryBackoff: false,
  expireInSeconds: 6 * 3_600,
  retentionSeconds: KEEP_JOBS_SECONDS,
};
const COLUMNS = `intent, task, status, ${LEASE}, attempts, put_offs, due_at, result, failure, updated_at`;
const IS_OVERDUE = `coalesce(expires_at, due_at) < clock_timestamp() - ${LOST_AFTER}`;
const NAMED = 'tenant = $1 and directive_id = $2';

/** One that is looked at again: it is as it was, or its lease expires later. */
interface UnchangedRow {
  readonly at: Date;
  readonly again_at: Date;
}

function orNull<Value>(value: Value | undefined): Value | null {
  return value ?? null;
}

const CHANGED = 'toolloop_directives';
/** PostgreSQL takes less than 8,000. */
const MOST_BYTES = 7_900;

/**
 * The changes of directives: this process's own as it makes them, and those of others as
 * notifications, for as long as a listener has asked to hear any.
 */
export class DirectiveFeed {
  /** It never errors. */
  readonly changes$: Observable<DirectiveEvent>;
  private readonly logger = new Logger('SqlDirectiveStore');
  private readonly changes = new Subject<DirectiveEvent>();
  private readonly self = randomUUID();
  private listening: Promise<unknown> | undefined;

  constructor(private readonly database: Database) {
    this.changes$ = new Observable((subscriber) => {
      const subscription = this.changes.subscribe(subscriber);
      void this.listen();
      return subscription;
    });
  }

  /**
   * Keeps a change, and tells it once it is kept. Inside a transaction of the caller's that is when
   * theirs is, so this process hears of it as the others do. A change whose texts are too long for
   * a notification is told in this process alone.
   */
  async tell<Kept>(
    keep: () => Promise<Kept>,
    eventOf: (kept: Kept) => DirectiveEvent | undefined,
  ): Promise<Kept> {
    const isOwn = !this.database.isInTransaction;
    const kept = await this.database.transaction(async () => {
      const made = await keep();
      const event = eventOf(made);
      if (event) await this.notify(JSON.stringify({ event, ...(isOwn && { from: this.self }) }));
      return made;
    });
    const event = eventOf(kept);
    if (event && isOwn) this.changes.next(event);
    return kept;
  }

  private async notify(payload: string): Promise<void> {
    if (Buffer.byteLength(payload) <= MOST_BYTES)
      await this.database.query(`select pg_notify('${CHANGED}', $1)::text`, [payload]);
  }

  private async listen(): Promise<void> {
    this.listening ??= this.database.listen(CHANGED, (payload) => {
      const { from, event } = fromTold(payload);
      if (from !== this.self) this.changes.next(event);
    });
    try {
      await this.listening;
    } catch (error) {
      this.listening = undefined;
      this.logger.warn(
        `Changes of directives in other processes are not received: ${String(error)}`,
      );
    }
  }
}

/** A row of `toolloop.directives`, as much of it as a record is made of. */
export interface DirectiveRow {
  readonly intent: string;
  readonly task: DirectiveRecord['task'];
  readonly status: DirectiveRecord['status'];
  readonly owner: string | null;
  readonly epoch: number;
  readonly expires_at: Date | null;
  readonly attempts: number;
  readonly put_offs: number;
  readonly due_at: Date | null;
  readonly result: string | null;
  readonly failure: string | null;
  readonly updated_at: Date;
}

export function fromDirectiveRow(row: DirectiveRow): DirectiveRecord {
  const { task, status, owner, epoch, expires_at, attempts } = row;
  return {
    intent: JSON.parse(row.intent) as DirectiveIntent,
    task,
    status,
    epoch,
    attempts,
    ...(row.put_offs > 0 && { putOffs: row.put_offs }),
    ...(row.due_at && { dueAt: row.due_at.toISOString() }),
    ...(owner !== null && expires_at && { lease: fromLeaseRow({ owner, epoch, expires_at }) }),
    ...(row.result !== null && { result: JSON.parse(row.result) as JsonValue }),
    ...(row.failure !== null && { failure: JSON.parse(row.failure) as ToolFailure }),
    updatedAt: row.updated_at.toISOString(),
  };
}

/** A directive whose turn it is, and the time for which that was said. */
export interface DirectiveTurn extends DirectiveReference {
  readonly dueAt: string;
}

export function toJobId({ tenant, directiveId, dueAt }: DirectiveTurn): string {
  return JSON.stringify([tenant, directiveId, dueAt]);
}

export function fromJobId(id: string): DirectiveTurn {
  const [tenant, directiveId, dueAt] = JSON.parse(id) as [
    tenant: string,
    directiveId: string,
    dueAt: string,
  ];
  return { tenant, directiveId, dueAt };
}

/** A change as processes tell it to each other. */
export interface ToldChange {
  /** The id of the process that has told its own listeners already. */
  readonly from?: string;
  readonly event: DirectiveEvent;
}

export function fromTold(payload: string): ToldChange {
  return JSON.parse(payload) as ToldChange;
}
