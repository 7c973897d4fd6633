import { Logger, type OnApplicationBootstrap } from '@nestjs/common';
import {
  DirectiveStore,
  toDirectiveEvent,
  type AddedDirective,
  type DirectiveChange,
  type DirectiveEvent,
  type DirectiveEventType,
  type DirectiveIntent,
  type DirectiveQuery,
  type DirectiveRecord,
  type DirectiveReference,
  type DirectiveVersion,
  type StopWork,
} from '@toolloop/core';
import type { Observable } from 'rxjs';
import type { Database } from '../database/database.js';
import type { SqlValue } from '../database/database-driver.js';
import type { JobQueue } from '../queue/job.queue.js';
import { isStorable, keyHash, storableKey, storedJson } from '../stores/storable.js';
import { DirectiveFeed } from './directive.feed.js';
import { fromDirectiveRow, fromJobId, toJobId, type DirectiveRow } from './from-directive-row.js';

const QUEUE = 'toolloop-directives';
const DAY_SECONDS = 86_400;
/** Whatever rejects is the infrastructure, and no job is given up for its age: a directive waits for as long as nobody performs any. */
const JOBS = {
  retryLimit: 1_000,
  retryDelay: 1,
  retryBackoff: false,
  expireInSeconds: DAY_SECONDS / 4,
  retentionSeconds: 3_650 * DAY_SECONDS,
};
const COLUMNS = 'intent, task, status, epoch, attempts, due_at, result, failure, updated_at';
/** The time is that of the moment, not of the transaction's beginning, which may be long ago. */
const IN_MS = (parameter: string): string =>
  `date_trunc('milliseconds', clock_timestamp() + ${parameter}::float8 * interval '1 millisecond')`;

/** One that is looked at again: it is as it was, or its lease ends later. */
interface UnchangedRow {
  readonly due_at: Date;
  readonly again_at: Date;
}

type Kept = DirectiveRecord | undefined;

/**
 * Keeps directives in SQL. The row is the truth, what failed for good included; every change that leaves one to be looked at writes a job that says when, in its
 * own transaction. A job that was handed out without its row changing is written again.
 */
export class SqlDirectiveStore extends DirectiveStore implements OnApplicationBootstrap {
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

  /** Makes the queue ready: the first directive may be asked for within a transaction, where that cannot be done. */
  async onApplicationBootstrap(): Promise<void> {
    await this.ready();
  }

  override async add(intent: DirectiveIntent, first?: () => Promise<void>): Promise<AddedDirective> {
    const { tenant, directiveId, key, subject, authority } = intent;
    const record = await this.put(
      'requested',
      0,
      `
      insert into toolloop.directives (tenant, directive_id, key_hash, subject_hash, actor_hash, intent, due_at, updated_at)
      values ($1, $2, $3, $4, $5, $6, ${IN_MS('0')}, clock_timestamp()) on conflict do nothing returning ${COLUMNS}`,
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
      throw new Error(`The id ${directiveId} belongs to a directive with another key, or the one with this key was just deleted.`);
    return { record: known, isNew: false };
  }

  override async find({ tenant, directiveId }: DirectiveReference): Promise<DirectiveRecord | undefined> {
    if (!isStorable(tenant) || !isStorable(directiveId)) return undefined;
    return this.one('directive_id', tenant, directiveId);
  }

  override async list({ tenant, status, subject, actorId, limit = 100, after }: DirectiveQuery): Promise<readonly DirectiveRecord[]> {
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

  override async claim({ tenant, directiveId }: DirectiveReference, leaseMs: number): Promise<DirectiveRecord | undefined> {
    if (!isStorable(tenant) || !isStorable(directiveId)) return undefined;
    return this.put(
      'started',
      leaseMs,
      `
      update toolloop.directives
      set status = 'performing', epoch = epoch + 1, attempts = attempts + 1, due_at = ${IN_MS('$3')}, updated_at = clock_timestamp()
      where tenant = $1 and directive_id = $2 and due_at <= clock_timestamp() returning ${COLUMNS}`,
      [tenant, directiveId, leaseMs],
    );
  }

  /** The job that was written with the claim comes at the former end, and is then written again for this one. */
  override async extend({ tenant, directiveId, status, epoch }: DirectiveVersion, leaseMs: number): Promise<boolean> {
    if (status !== 'performing' || !isStorable(tenant) || !isStorable(directiveId)) return false;
    const held = await this.database.query(
      `update toolloop.directives set due_at = ${IN_MS('$4')}
       where tenant = $1 and directive_id = $2 and status = 'performing' and epoch = $3 returning tenant`,
      [tenant, directiveId, epoch, leaseMs],
    );
    return held.length > 0;
  }

  override async change(from: DirectiveVersion, { event, dueInMs, ...change }: DirectiveChange): Promise<DirectiveRecord | undefined> {
    if (!isStorable(from.tenant) || !isStorable(from.directiveId)) return undefined;
    const { status, task, attempts, result, failure } = change;
    return this.put(
      event,
      dueInMs ?? 0,
      `
      update toolloop.directives
      set status = $5, task = coalesce($6, task), attempts = coalesce($7::int, attempts), due_at = ${IN_MS('$8')}, result = coalesce($9, result),
        failure = $10, updated_at = clock_timestamp()
      where tenant = $1 and directive_id = $2 and status = $3 and epoch = $4 returning ${COLUMNS}`,
      [
        from.tenant,
        from.directiveId,
        from.status,
        from.epoch,
        status,
        task ?? null,
        attempts ?? null,
        dueInMs ?? null,
        result === undefined ? null : storedJson(result, 'result'),
        failure ? storedJson(failure, 'failure') : null,
      ],
    );
  }

  override async work(perform: (reference: DirectiveReference) => Promise<void>, concurrency: number): Promise<StopWork> {
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
    const stop = await this.jobs.work(QUEUE, handle, concurrency);
    return async () => {
      hasStopped = true;
      await stop();
      await Promise.allSettled(inHand);
    };
  }

  /** One job. */
  private async turn(id: string, perform: (reference: DirectiveReference) => Promise<void>): Promise<void> {
    const { tenant, directiveId, dueAt } = fromJobId(id);
    try {
      await perform({ tenant, directiveId });
      const [unchanged] = await this.database.query<UnchangedRow>(
        `select due_at, greatest(due_at, clock_timestamp() + interval '1 second') as again_at from toolloop.directives
         where tenant = $1 and directive_id = $2 and (due_at = $3 or (due_at > $3 and status = 'performing'))`,
        [tenant, directiveId, new Date(dueAt)],
      );
      if (!unchanged) return;
      const again = toJobId({ tenant, directiveId, dueAt: unchanged.due_at.toISOString() });
      await this.jobs.send(QUEUE, { id: again, startAfter: unchanged.again_at });
    } catch (error) {
      this.logger.error(`The directive ${directiveId} could not be processed; it is tried again.`, error);
      throw error;
    }
  }

  /** Nobody else is on an embedded database, so what was begun before this process is of one that is gone: nobody waits for its lease. */
  private async takeOver(): Promise<void> {
    await this.database.transaction(async () => {
      const left = await this.database.query<DirectiveRow>(
        `update toolloop.directives set due_at = ${IN_MS('0')} where status = 'performing' and updated_at < $1 returning ${COLUMNS}`,
        [this.openedAt],
      );
      for (const row of left) await this.send(fromDirectiveRow(row), 0);
    });
  }

  private async put(
    event: DirectiveEventType,
    dueInMs: number,
    statement: string,
    values: readonly SqlValue[],
    first?: () => Promise<void>,
  ): Promise<Kept> {
    await this.ready();
    const keep = async (): Promise<Kept> => {
      await first?.();
      const [row] = await this.database.query<DirectiveRow>(statement, values);
      if (!row) return undefined;
      const record = fromDirectiveRow(row);
      await this.send(record, dueInMs);
      return record;
    };
    return this.feed.tell(keep, (record) => record && toDirectiveEvent(event, record));
  }

  /** Writes the job of a directive that is due some time; of one that is due now without a time, since that wakes somebody at once. */
  private async send({ intent: { tenant, directiveId }, dueAt }: DirectiveRecord, dueInMs: number): Promise<void> {
    if (dueAt === undefined) return;
    await this.jobs.send(QUEUE, { id: toJobId({ tenant, directiveId, dueAt }), ...(dueInMs > 0 && { startAfter: new Date(dueAt) }) });
  }

  private async one(column: 'directive_id' | 'key_hash', tenant: string, value: string): Promise<DirectiveRecord | undefined> {
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
