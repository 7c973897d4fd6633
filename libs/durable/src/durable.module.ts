import { setTimeout as wait } from 'node:timers/promises';
import {
  ConfigurableModuleBuilder,
  Injectable,
  Module,
  type OnApplicationShutdown,
  type OnModuleDestroy,
  type Provider,
} from '@nestjs/common';
import { ConfigurationError, type Finding } from '@toolloop/core';
import { AuditTrail } from '@toolloop/core/audit';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { type PendingStore, type RunLog, ToolLoopStores } from '@toolloop/core/stores';
import { type DatabaseDriver, repeatedWhereLost } from './database/database-driver.js';
import { unreachable } from './database/database-url.js';
import { Database } from './database/database.js';
import { migrate, OutdatedDatabaseError } from './database/migrations.js';
import { PgliteDriver } from './database/pglite-driver.js';
import { PostgresDriver } from './database/postgres-driver.js';
import { SqlDirectiveStore } from './directives/sql-directive-store.js';
import { AuditProbe, DurableHealth } from './durable-health.js';
import { DURABLE, type DurableOptions } from './durable-options.js';
import { JobQueue } from './queue/job-queue.js';
import { RetentionSweep } from './retention.js';
import { RUN_OPTIONS, RunEngine } from './runs/run-engine.js';
import { SqlRunLog } from './runs/sql-run-log.js';
import { SqlPolicyStore } from './stores/sql-policy-store.js';
import { SqlUsageStore } from './stores/sql-usage-store.js';
import { SqlPendingStore } from './stores/sql-pending-store.js';
import { WakingPendingStore } from './stores/waking-pending-store.js';
import { SqlCallJournal } from './stores/sql-call-journal.js';
import { SqlCallTransactions } from './stores/sql-call-transactions.js';
import { SqlAuditStore } from './stores/sql-audit-store.js';
import { SqlAccountStore } from './stores/sql-account-store.js';
import { SqlConversationStore } from './stores/sql-conversation-store.js';

/**
 * Opens the database and brings its schema up to date.
 *
 * @throws `ConfigurationError` with what to do, and `OutdatedDatabaseError` for a database of a
 *   commit before the first release.
 */
export async function openDatabase(options: DurableOptions): Promise<Database> {
  DURABLE.assert(options, 'DurableModule');
  const database = await openedForWriting(options);
  try {
    await repeatedWhereLost(async () => {
      if ('url' in options) await assertRights(database);
      await migrate(database);
    });
    return database;
  } catch (error) {
    await database.close();
    if (
      error instanceof ConfigurationError ||
      error instanceof OutdatedDatabaseError ||
      !('url' in options)
    )
      throw error;
    throw unreachable(options.url, error);
  }
}

const DURABLE_OPTIONS = Symbol('toolloop:durable options');

const LOOK_MS = 1_000;
const ONLY_READ: Finding = {
  at: 'DurableModule url',
  problem:
    'PostgreSQL only lets itself be read: the server is a standby, or default_transaction_read_only is on.',
  remedy:
    'Name the primary in the url, or let the start wait for a promotion: { waitForPrimaryMs: 60000 }.',
};

/**
 * Opens a database that takes writes. Each look at one that does not is made over connections of
 * its own: a proxy may lead them elsewhere.
 */
async function openedForWriting(options: DurableOptions): Promise<Database> {
  const until = Date.now() + ('url' in options ? (options.waitForPrimaryMs ?? 0) : 0);
  for (;;) {
    const database = new Database(await driverFor(options));
    const isReadOnly = 'url' in options && (await onlyReads(database));
    if (!isReadOnly) return database;
    await database.close();
    if (Date.now() >= until) throw new ConfigurationError([ONLY_READ]);
    await wait(LOOK_MS);
  }
}

async function onlyReads(database: Database): Promise<boolean> {
  let setting: string | undefined;
  await repeatedWhereLost(async () => {
    const [row] = await database.query<{ setting: string }>(
      `select current_setting('transaction_read_only') as setting`,
    );
    setting = row?.setting;
  });
  return setting === 'on';
}

/** All adapters over one handle. */
@Injectable()
export class SqlStores extends ToolLoopStores {
  override readonly accounts: SqlAccountStore;
  override readonly audit: SqlAuditStore;
  override readonly conversations: SqlConversationStore;
  override readonly directives?: SqlDirectiveStore;
  override readonly journal: SqlCallJournal;
  override readonly pending: PendingStore;
  override readonly policies: SqlPolicyStore;
  override readonly usage: SqlUsageStore;
  override readonly runs?: RunLog;
  override readonly transactions: SqlCallTransactions;

  /**
   * With a log of durable runs, an answer wakes the run that asked. Directives need a queue, which
   * their store has.
   */
  constructor(database: Database, runs?: RunLog, directives?: SqlDirectiveStore) {
    super();
    this.accounts = new SqlAccountStore(database);
    this.audit = new SqlAuditStore(database);
    this.conversations = new SqlConversationStore(database);
    if (runs) this.runs = runs;
    if (directives) this.directives = directives;
    this.journal = new SqlCallJournal(database);
    const pending = new SqlPendingStore(database);
    this.pending = runs
      ? new WakingPendingStore(pending, runs, (work) => database.transaction(work))
      : pending;
    this.policies = new SqlPolicyStore(database);
    this.usage = new SqlUsageStore(database);
    this.transactions = new SqlCallTransactions(database);
  }
}

const OWN_PROVIDERS: readonly Provider[] = [
  { provide: Database, inject: [DURABLE_OPTIONS], useFactory: openDatabase },
  JobQueue,
  {
    provide: SqlRunLog,
    inject: [Database, JobQueue],
    useFactory: (database: Database, jobs: JobQueue) => new SqlRunLog(database, jobs),
  },
  {
    provide: SqlDirectiveStore,
    inject: [Database, JobQueue],
    useFactory: (database: Database, jobs: JobQueue) => new SqlDirectiveStore(database, jobs),
  },
  {
    provide: SqlStores,
    inject: [Database, SqlRunLog, SqlDirectiveStore],
    useFactory: (database: Database, runs: SqlRunLog, directives: SqlDirectiveStore) =>
      new SqlStores(database, runs, directives),
  },
  { provide: ToolLoopStores, useExisting: SqlStores },
  {
    provide: RUN_OPTIONS,
    inject: [DURABLE_OPTIONS, Database], // which checks them
    useFactory: ({ runs = {} }: DurableOptions) => runs,
  },
  RunEngine,
  {
    provide: DurableHealth,
    inject: [
      Database,
      { token: DataPolicyEngine, optional: true },
      { token: AuditTrail, optional: true },
    ],
    useFactory: (database: Database, policies?: DataPolicyEngine, trail?: AuditTrail) =>
      new DurableHealth(database, policies, trail && new AuditProbe(database)),
  },
  {
    provide: RetentionSweep,
    inject: [Database, DURABLE_OPTIONS],
    useFactory: (database: Database, { retention }: DurableOptions) =>
      new RetentionSweep(database, retention),
  },
];

const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<DurableOptions>({
  optionsInjectionToken: DURABLE_OPTIONS,
})
  .setClassMethodName('forRoot')
  .setExtras({}, (definition) => ({
    ...definition,
    global: true,
    providers: [...(definition.providers ?? []), ...OWN_PROVIDERS],
  }))
  .build();

/**
 * Keeps runs, approvals, directives, journal, audit, conversations, policies and usage in a
 * database. Import it once, beside `ToolLoopModule.forRoot` and in any order: it is global, and its
 * stores replace those in memory. It closes the database last, when the application shuts down.
 */
@Module({ exports: [Database, DurableHealth, JobQueue, SqlStores, ToolLoopStores] })
export class DurableModule
  extends ConfigurableModuleClass
  implements OnModuleDestroy, OnApplicationShutdown
{
  constructor(private readonly database: Database) {
    super();
  }

  onModuleDestroy(): void {
    this.database.leave();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.database.close();
  }
}

function driverFor(options: DurableOptions): Promise<DatabaseDriver> {
  if ('url' in options) return PostgresDriver.connect(options.url, options.connections);
  if ('dataDir' in options) return PgliteDriver.inFolder(options.dataDir);
  return PgliteDriver.inMemory(options.template);
}

/** Ours, and the one of the job queue. */
const SCHEMAS = ['toolloop', 'pgboss'];

/** Whose rights do not suffice, and where. */
interface Rights {
  readonly name: string;
  readonly database: string;
  /** As SQL writes them. */
  readonly who: string;
  readonly is_there: boolean;
  readonly may_use: boolean;
  readonly may_create: boolean;
}

const RIGHTS = `
  select s.name, quote_ident(current_database()) as database, quote_ident(current_user) as who, n.oid is not null as is_there,
    has_database_privilege(current_database(), 'create') as may_create,
    coalesce(has_schema_privilege(n.oid, 'usage'), false) and not exists (
      select 1 from pg_class c where c.relnamespace = n.oid and (
        c.relkind in ('r', 'p') and not (
          has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert') and
          has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete')
        ) or c.relkind = 'S' and not has_sequence_privilege(c.oid, 'usage')
      )
    ) as may_use
  from unnest($1::text[]) as s (name) left join pg_namespace n on n.nspname = s.name order by s.name desc`;

/**
 * Checks that the user may make the schemas, or use those that another user has made.
 *
 * @throws {ConfigurationError} With the statements that grant it.
 */
export async function assertRights(database: Database): Promise<void> {
  const rights = await database.query<Rights>(RIGHTS, [SCHEMAS]);
  const lacking = rights.filter(
    ({ is_there, may_use, may_create }) => !(is_there ? may_use : may_create),
  );
  if (lacking.length === 0) return;
  throw new ConfigurationError(
    lacking.map((one) => ({
      at: 'DurableModule url',
      problem: `The user ${one.who} may not ${one.is_there ? 'use' : 'create'} the schema ${one.name} in the database ${one.database}.`,
      remedy: one.is_there
        ? granting(one)
        : `As its owner: grant create on database ${one.database} to ${one.who};`,
    })),
  );
}

function granting({ name, who }: Rights): string {
  return [
    `As its owner: grant usage on schema ${name} to ${who};`,
    `grant select, insert, update, delete on all tables in schema ${name} to ${who};`,
    `grant usage on all sequences in schema ${name} to ${who};`,
    'A release that changes the schema is started once by the owner, and these are granted again.',
  ].join(' ');
}
