import { asStoreAttempt, Logger } from '@toolloop/core/internal';
import {
  Injectable,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { Database } from './database/database.js';
import type { Retention } from './durable-options.js';
import { withdrawPending } from './stores/sql-pending-store.js';

/** Deletes what is over: when the application starts, and every hour. */
@Injectable()
export class RetentionSweep implements BeforeApplicationShutdown, OnApplicationBootstrap {
  private readonly logger = new Logger('DurableRetention');
  private readonly rules: readonly Rule[];
  private timer: NodeJS.Timeout | undefined;
  private sweeping: Promise<void> = Promise.resolve();
  private isStopped = false;

  constructor(
    private readonly database: Database,
    private readonly retention: Retention = {},
  ) {
    this.rules = listRules(retention);
  }

  onApplicationBootstrap(): void {
    if (Object.values(this.retention).every((days) => days === undefined))
      this.logger.warn(KEPT_FOR_EVER);
    this.timer = setInterval(() => this.start(), EVERY_MS).unref();
    this.start();
  }

  /**
   * Runs once every part of the application refuses new work, which must not wait for a sweep to
   * end.
   */
  async beforeApplicationShutdown(): Promise<void> {
    this.isStopped = true;
    clearInterval(this.timer);
    await this.sweeping;
  }

  /** Resolves to the number of rows deleted. Several processes may do it at once. */
  async sweep(): Promise<number> {
    let deleted = 0;
    for (const rule of this.rules) {
      if (rule.days === undefined) continue;
      for (let last = BATCH; last === BATCH && !this.isStopped; deleted += last)
        last = await this.delete(rule);
    }
    return deleted;
  }

  /**
   * One batch; runs that wait, together with what they ask. Over a connection that is gone it ends
   * as what a store asks.
   */
  private delete({ table, key, over, days, waits = false }: Rule): Promise<number> {
    const deleting = async (): Promise<number> => {
      const rows = await this.database.query<{ readonly tenant: string; readonly runId: string }>(
        `delete from ${table} where (${key}) in (select ${key} from ${table} where ${over} limit ${BATCH} for update skip locked)
         returning ${waits ? 'tenant, run_id as "runId"' : '1 as gone'}`,
        [days ?? null],
      );
      if (waits) await withdrawPending(this.database, rows);
      return rows.length;
    };
    return asStoreAttempt(() => this.database.transaction(deleting));
  }

  private start(): void {
    this.sweeping = this.sweep().then(
      () => undefined,
      (error: unknown) => this.logger.warn(`Expired data could not be deleted: ${String(error)}`),
    );
  }
}

const EVERY_MS = 3_600_000;
/**
 * Rows of one statement: a delete of a million would hold its locks, and on PGlite everybody, for
 * as long as it takes.
 */
const BATCH = 1_000;

const KEPT_FOR_EVER =
  'Nothing is ever deleted, since no retention is given: name the days to keep things, such as { retention: { runs: 30, calls: 30, conversations: 90, pending: 90 } }.';

interface Rule {
  readonly table: string;
  readonly key: string;
  /** The condition of rows that are over; `$1` is a number of days. */
  readonly over: string;
  readonly days: number | undefined;
  /** Set for runs that wait for people. */
  readonly waits?: boolean;
}

/** The days that counts of usage are kept, by default: a report spans no more. */
const DAYS_OF_USAGE = 400;
/** The days that their ids are known: a batch is sent again, or a run taken over, long before. */
const DAYS_OF_IDS = 2;

/**
 * The condition of a question that a person may answer yet. Its expiry is ISO 8601 in UTC, which is
 * in order as a text.
 */
const IS_OPEN = `decision is null and record->>'expiresAt' > to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** The moment before which rows are over; `$1` is the number of days. */
const AGO = `now() - $1::float8 * interval '1 day'`;
const CREATED_BEFORE = `created_at < ${AGO}`;

function listRules(retention: Retention): readonly Rule[] {
  return [
    ...listRecordRules(retention),
    ...listRunRules(retention),
    ...listUsageRules(retention),
    ...EXPIRED,
  ];
}

/** Lists the rules of what people and tools have said and done, within runs and after them. */
function listRecordRules({
  pending,
  calls,
  conversations,
  directives,
}: Retention): readonly Rule[] {
  return [
    {
      table: 'toolloop.pending',
      key: 'id',
      over: `${CREATED_BEFORE} and not (${IS_OPEN})`,
      days: pending,
    },
    {
      table: 'toolloop.calls',
      key: 'tenant, key_hash',
      over: `started_at < ${AGO} and finished_at < ${AGO}`,
      days: calls,
    },
    {
      table: 'toolloop.conversation_parts',
      key: 'tenant, key_hash, position',
      over: CREATED_BEFORE,
      days: conversations,
    },
    {
      table: 'toolloop.directives',
      key: 'tenant, directive_id',
      over: `status in ('succeeded', 'dead', 'cancelled', 'compensated') and updated_at < ${AGO}`,
      days: directives,
    },
  ];
}

/**
 * Lists the rules of runs: those that have ended, and those that wait for an answer which may not
 * come any more.
 */
function listRunRules({ runs, suspendedRuns }: Retention): readonly Rule[] {
  return [
    { table: 'toolloop.runs', key: 'run_id', over: `ended_at < ${AGO}`, days: runs },
    {
      table: 'toolloop.runs',
      key: 'run_id',
      over: `request is null and status = 'waiting' and updated_at < ${AGO} and not exists (
        select from toolloop.pending where tenant = runs.tenant and run_id = runs.run_id and ${IS_OPEN})`,
      days: suspendedRuns,
      waits: true,
    },
  ];
}

function listUsageRules({ usage = DAYS_OF_USAGE }: Retention): readonly Rule[] {
  return [
    { table: 'toolloop.usage', key: 'tenant, day, key_hash', over: `day < ${AGO}`, days: usage },
    {
      table: 'toolloop.usage_ids',
      key: 'tenant, id_hash',
      over: `added_at < ${AGO}`,
      days: DAYS_OF_IDS,
    },
  ];
}

/**
 * Counters of windows that are over, and accounts and turns that have expired, may go at any time;
 * a day later no one looks at them any more.
 */
const EXPIRED: readonly Rule[] = [
  {
    table: 'toolloop.conversation_turns',
    key: 'tenant, key_hash',
    over: `expires_at < ${AGO}`,
    days: 1,
  },
  {
    table: 'toolloop.conversation_inputs',
    key: 'tenant, key_hash, input_id',
    over: `expires_at < ${AGO}`,
    days: 1,
  },
  {
    table: 'toolloop.session_accounts',
    key: 'tenant, key_hash',
    over: `expires_at < ${AGO}`,
    days: 1,
  },
  {
    table: 'toolloop.quotas',
    key: 'tenant, quantity, window_ms, "window"',
    over: `("window" + 1) * window_ms < extract(epoch from ${AGO}) * 1000`,
    days: 1,
  },
];
