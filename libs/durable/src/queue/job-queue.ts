import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { asStoreAttempt, Logger } from '@toolloop/core/internal';
import { StorageUnavailableError } from '@toolloop/protocol';
import { type Db, fromPglite, PgBoss, type Queue } from 'pg-boss';
import { rejectAsOurs, repeatedWhereLost, type SqlValue } from '../database/database-driver.js';
import { Database } from '../database/database.js';

/**
 * Jobs in the application's own database, by pg-boss: written in the transaction of what they are
 * about, handed out by whichever process has room, and again after one that died. Started by the
 * first who needs it.
 */
@Injectable()
export class JobQueue implements OnApplicationShutdown {
  private readonly logger = new Logger(JobQueue.name);
  private starting: Promise<PgBoss> | undefined;
  private readonly queues = new Map<string, Promise<void>>();
  private readonly options = new Map<string, QueueOptions>();

  constructor(private readonly database: Database) {}

  /**
   * Makes the queue where it is missing. Call it outside of any transaction, and before anything is
   * sent.
   */
  ensure(queue: string, options: QueueOptions = {}): Promise<void> {
    const known = this.queues.get(queue);
    if (known) return known;
    this.options.set(queue, options);
    const ready = this.database.outside(() => repeatedWhereLost(() => this.create(queue)));
    this.queues.set(queue, ready);
    ready.catch(() => this.queues.delete(queue)); // the next caller tries again
    return ready;
  }

  /**
   * Writes a job, as part of the transaction that the caller is in.
   *
   * @throws {StorageUnavailableError} Where the queue itself is gone, as from a restored database;
   *   it is made again meanwhile.
   */
  async send(queue: string, { id, startAfter, priority = 0 }: Job): Promise<void> {
    await this.queues.get(queue);
    const boss = await this.started();
    const within = this.database.isInTransaction && { db: toBossTransaction(this.database) };
    const sent = await boss
      .send(queue, { id }, { priority, ...(startAfter && { startAfter }), ...within })
      .catch(rejectAsOurs);
    if (sent !== null) return;
    this.database.outside(() => void this.declare(queue).catch(() => undefined));
    throw new StorageUnavailableError(`The queue ${queue} is gone, and is made again.`);
  }

  /** Hands the queue's jobs to `handle`. Resolves to what ends it: no more are handed out. */
  async work(queue: string, work: QueueWork): Promise<() => Promise<void>> {
    await this.ensure(queue);
    const boss = await this.started();
    const places = Array.from({ length: work.most }, (_, index) =>
      index === 0 ? LOOKOUT_SECONDS : POLL_SECONDS,
    );
    const ids = await Promise.all(places.map((seconds) => this.workAt(boss, seconds, queue, work)));
    const timer = setInterval(() => void this.mend(queue, work), MEND_MS).unref();
    void this.mend(queue, work);
    return async () => {
      clearInterval(timer);
      await Promise.all(ids.map((id) => boss.offWork(queue, { id, wait: false })));
    };
  }

  /** One worker, which looks for the next job as soon as it is done with one. */
  private async workAt(
    boss: PgBoss,
    seconds: number,
    queue: string,
    { handle }: QueueWork,
  ): Promise<string> {
    const polling = {
      batchSize: 1,
      pollingIntervalSeconds: seconds,
      notifyPollingIntervalSeconds: seconds,
    };
    const worker = boss.work<{ readonly id: string }>(queue, polling, async (jobs) => {
      const id = await worker;
      try {
        for (const { data } of jobs) await handle(data.id);
      } finally {
        boss.notifyWorker(id);
      }
    });
    return worker;
  }

  private async mend(queue: string, { mend = () => Promise.resolve(0) }: QueueWork): Promise<void> {
    try {
      let sent = 1;
      while (sent > 0 && !this.database.isClosed)
        sent = await asStoreAttempt(() => this.database.transaction(mend));
    } catch (error) {
      if (!this.database.isClosed)
        this.logger.warn(
          `Lost jobs of the queue ${queue} could not be sent again: ${String(error)}`,
        );
    }
  }

  async onApplicationShutdown(): Promise<void> {
    const boss = await this.starting?.catch(() => undefined);
    await boss?.stop({ graceful: false, close: false });
  }

  private async declare(queue: string): Promise<PgBoss> {
    const boss = await this.started();
    const all = {
      notify: true,
      heartbeatSeconds: HEARTBEAT_SECONDS,
      deleteAfterSeconds: KEEP_DONE_SECONDS,
      ...this.options.get(queue),
    };
    await boss.createQueue(queue, all);
    // one that is there already has the options of the release that made it
    await boss.updateQueue(queue, all);
    return boss;
  }

  private async create(queue: string): Promise<void> {
    const boss = await this.declare(queue);
    // Loads what pg-boss knows of its queues: within a transaction it would ask for it outside, and
    // wait for ever on PGlite.
    await boss.fetch(queue, { batchSize: 1, minPriority: 2_147_483_647 });
    if (this.database.engine === 'pglite') await this.reopenJobs(boss, queue);
    // its timer comes first after a while, which a process that keeps dying at its start never sees
    else await boss.supervise(queue);
  }

  /**
   * No other process is on an embedded database, so what is under way is of a process that is gone:
   * it is due now, not after its heartbeat.
   */
  private async reopenJobs(boss: PgBoss, queue: string): Promise<void> {
    const orphans = await this.database.query<{ id: string }>(
      `select id::text as id from pgboss.job where name = $1 and state = 'active'`,
      [queue],
    );
    if (orphans.length > 0)
      await boss.fail(
        queue,
        orphans.map(({ id }) => id),
      );
  }

  /**
   * Starts pg-boss, once more where that fails: of two processes that make its tables at once, one
   * may be told that they are there already.
   */
  private started(): Promise<PgBoss> {
    if (this.starting) return this.starting;
    const starting = this.database.outside(() => this.start().catch(() => this.start()));
    this.starting = starting;
    starting.catch(() => (this.starting = undefined)); // the next caller tries again
    return starting;
  }

  private async start(): Promise<PgBoss> {
    const { native } = this.database;
    const db: Db =
      native.engine === 'pglite' ? fromPglite(native.pglite) : toBossDatabase(this.database);
    const seconds = SUPERVISE_SECONDS[native.engine];
    const watch = {
      superviseIntervalSeconds: seconds,
      monitorIntervalSeconds: seconds,
      maintenanceIntervalSeconds: CLEAR_SECONDS,
    };
    const boss = new PgBoss({
      db,
      ...watch,
      useListenNotify: true,
      ...(native.engine === 'pglite' && { backend: 'pglite' as const }),
    });
    boss.on('error', (error) => this.logger.error('The job queue failed.', error));
    return boss.start();
  }
}

/**
 * A job, and when to hand it out. The work itself is in our tables; a job only says whose turn it
 * is.
 */
export interface Job {
  readonly id: string;
  /** @default at once */
  readonly startAfter?: Date;
  /** Jobs with a higher one are handed out first, whenever they were sent. @default 0 */
  readonly priority?: number;
}

/** The work on a queue in this process. */
export interface QueueWork {
  /** Does a job. It is handed out again where this rejects. */
  readonly handle: (id: string) => Promise<void>;
  /** The number of jobs that are handled at once, at most. */
  readonly most: number;
  /**
   * Sends again some jobs that are gone though their work is not done, in a transaction of its own;
   * resolves to their number. Called when the work begins, every twenty seconds, and again until
   * there are none.
   */
  readonly mend?: () => Promise<number>;
}

/**
 * The ids of the jobs of a queue that are still to be done or under way, as a subquery; `queue` is
 * a parameter such as `$1`.
 */
export function openJobs(queue: string): string {
  return `select data->>'id' as id from pgboss.job where name = ${queue} and state < 'completed'`;
}

/**
 * Seconds for which a job is kept that no process has asked for: ten years, since its work waits
 * for as long as there is no process.
 */
export const KEEP_JOBS_SECONDS = 3_650 * 86_400;

/** The options of a queue for its jobs. Times are seconds. */
export type QueueOptions = Pick<
  Queue,
  'retryLimit' | 'retryDelay' | 'retryBackoff' | 'expireInSeconds' | 'retentionSeconds'
>;

/**
 * The time for which work may be without a job before it counts as lost: with `MEND_MS` less than a
 * minute.
 */
export const LOST_AFTER = `interval '30 seconds'`;

/**
 * The seconds for which a job that is done, or was given up, can still be looked at: nothing asks
 * for it, and its work is in our tables.
 */
const KEEP_DONE_SECONDS = 3_600;
/**
 * The seconds between two times that pg-boss deletes what is kept for long enough; it would do so
 * once a day.
 */
const CLEAR_SECONDS = 600;

/** A process that is gone is noticed after as much silence; the least pg-boss allows. */
const HEARTBEAT_SECONDS = 10;
/**
 * The seconds between two looks of pg-boss for processes that died, when it counts its jobs, which
 * is most of what an idle process does. In a folder there is no other process that could die: what
 * its last one left is reopened at the start.
 */
const SUPERVISE_SECONDS = { postgres: 2, pglite: 60 } as const;
/**
 * Jobs that are due later, or again, are not notified: one of the workers of a queue looks for them
 * often.
 */
const LOOKOUT_SECONDS = 0.5;
/**
 * The others look in case a notification is lost or the one is at work. All of them often would
 * keep an idle process busy.
 */
const POLL_SECONDS = 10;
const MEND_MS = 20_000;

/** The way of pg-boss to a PostgreSQL server, over the connections we have. */
export function toBossDatabase(database: Database): Db {
  return {
    // Several statements at once come without values; then there is a result for each.
    executeSql: async (text, values) => {
      const result: unknown = await database
        .ask({ text, ...(values?.length && { values }) })
        .catch(rejectAsOurs);
      const results = (Array.isArray(result) ? result : [result]) as { readonly rows: unknown[] }[];
      return { rows: results.flatMap(({ rows }) => rows) };
    },
    listen: async (channel, heard, again) => {
      const close = await database.listen(channel, heard);
      again();
      return { close };
    },
  };
}

/** The transaction that the caller is in, for pg-boss to be part of. */
export function toBossTransaction(database: Database): Db {
  return {
    executeSql: async (text, values = []) => ({
      rows: [...(await database.query(text, values as SqlValue[]))],
    }),
  };
}
