import { hash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { ConfigurationError } from '@toolloop/core';
import { fromError } from './storage-error.js';
import type { Database } from './database.js';

/**
 * The questions of runs to people, and their answers. `owner` and `expires_at` are the lease of a
 * process that is deciding one; the columns of the notice say when people are told next, and who
 * tells them.
 */
const PENDING = [
  `create table toolloop.pending (
    id text primary key,
    position bigint generated always as identity,
    tenant text not null,
    run_id text not null,
    conversation text,
    record json not null,
    decision text,
    answer json,
    owner text,
    expires_at timestamptz(3),
    used_at timestamptz(3),
    notice_at timestamptz(3),
    notice_due timestamptz(3),
    notice_attempts int not null default 0,
    notice_owner text,
    notice_expires_at timestamptz(3),
    created_at timestamptz not null default now()
  )`,
  `create unique index pending_of_tenant on toolloop.pending (tenant, position)`,
  `create index pending_unanswered on toolloop.pending (tenant, position) where decision is null`,
  `create index pending_of_run on toolloop.pending (tenant, run_id, position)`,
  `create index pending_of_conversation on toolloop.pending (tenant, conversation, position) where conversation is not null`,
  `create index pending_created on toolloop.pending (created_at)`,
  `create index pending_notices on toolloop.pending (notice_due) where decision is null and notice_due is not null`,
];

/**
 * The journal. No index holds a column that the end of a call changes. `effect` is what a call did
 * in a transaction of this database; `owner`, `epoch` and `expires_at` are the lease of a call that
 * has not ended.
 */
const CALLS = [
  `create table toolloop.calls (
    tenant text not null,
    key_hash text not null,
    idempotency_key text not null,
    run_id text not null,
    declared_id text not null,
    call_hash text not null,
    owner text not null,
    epoch int not null,
    expires_at timestamptz(3) not null,
    effect json,
    outcome json,
    started_at timestamptz not null default now(),
    finished_at timestamptz,
    primary key (tenant, key_hash)
  )`,
  `create index calls_started on toolloop.calls (started_at)`,
];

const AUDIT = [
  `create table toolloop.audit (
    tenant text not null,
    sequence bigint not null check (sequence > 0),
    hash text not null,
    entry json not null,
    primary key (tenant, sequence)
  )`,
  `create function toolloop.refuse_change() returns trigger language plpgsql as $$
    begin
      raise exception 'The audit is append-only: % is refused.', tg_op;
    end
  $$`,
  `create trigger audit_append_only before update or delete on toolloop.audit for each row execute function toolloop.refuse_change()`,
  `create trigger audit_not_truncated before truncate on toolloop.audit for each statement execute function toolloop.refuse_change()`,
];

/**
 * Conversations, one row for what a run added: a run that ends twice, since its process died, adds
 * it once.
 */
const CONVERSATIONS = [
  `create table toolloop.conversation_parts (
    tenant text not null,
    key_hash text not null,
    position bigint generated always as identity,
    actor_hash text not null,
    conversation_id text not null,
    run_id text,
    message_count int not null,
    messages json not null,
    message_hashes text[] not null default '{}',
    cut_by text,
    created_at timestamptz not null default now(),
    primary key (tenant, key_hash, position)
  )`,
  `create unique index conversation_parts_of_run on toolloop.conversation_parts (tenant, key_hash, run_id)`,
  `create index conversation_parts_of_actor on toolloop.conversation_parts (tenant, actor_hash, position)`,
  `create index conversation_parts_created on toolloop.conversation_parts (created_at)`,
  `create table toolloop.conversation_turns (
    tenant text not null, key_hash text not null, owner text not null, expires_at timestamptz(3) not null, primary key (tenant, key_hash)
  )`,
  `create index conversation_turns_expiry on toolloop.conversation_turns (expires_at)`,
  `create table toolloop.conversation_inputs (
    tenant text not null, key_hash text not null, input_id text not null, position bigint generated always as identity, texts json not null,
    taken_by text, expires_at timestamptz(3) not null, primary key (tenant, key_hash, input_id)
  )`,
  `create index conversation_inputs_expiry on toolloop.conversation_inputs (expires_at)`,
];

/**
 * Policies, and the stops that are in force. Each change takes the next revision from the one row
 * of `policy_state`, whose lock is held until the commit: so changes become visible in the order of
 * their revisions. `scope` is a tenant as JSON, `null` for all of them.
 */
const POLICIES = [
  `create table toolloop.policy_state (is_only boolean primary key default true check (is_only), revision bigint not null default 0)`,
  `insert into toolloop.policy_state default values`,
  `create table toolloop.policies (
    scope text not null,
    number int not null check (number > 0),
    revision bigint not null,
    version json not null,
    primary key (scope, number)
  )`,
  `create index policies_changed on toolloop.policies (revision)`,
  `create table toolloop.policy_stops (stop_id text primary key, revision bigint not null, stop json not null)`,
];

/**
 * The use of tenants, by day. Names are JSON texts, `null` for what is absent, compared by their
 * bytes; `usage_ids` are those of batches and increments that were added.
 */
const USAGE = [
  `create table toolloop.usage (
    tenant text not null,
    day date not null,
    key_hash text not null,
    actor text collate "C" not null,
    tool text collate "C" not null,
    model text collate "C" not null,
    calls double precision not null,
    answers double precision not null,
    input_tokens double precision not null,
    output_tokens double precision not null,
    usd double precision not null,
    unpriced_answers double precision not null,
    primary key (tenant, day, key_hash)
  )`,
  `create index usage_day on toolloop.usage (day)`,
  `create table toolloop.usage_ids (
    tenant text not null,
    id_hash text not null,
    added_at timestamptz not null default now(),
    primary key (tenant, id_hash)
  )`,
  `create index usage_ids_added on toolloop.usage_ids (added_at)`,
];

/** The same counts in the windows of quotas. */
const QUOTAS = [
  `create table toolloop.quotas (
    tenant text not null,
    quantity text not null,
    window_ms bigint not null,
    "window" bigint not null,
    used double precision not null,
    primary key (tenant, quantity, window_ms, "window")
  )`,
];

/** The accounts of sessions, which count until `expires_at`. */
const ACCOUNTS = [
  `create table toolloop.session_accounts (
    tenant text not null,
    key_hash text not null,
    actor_hash text not null,
    is_tainted boolean not null,
    has_read_private boolean not null,
    refusals int not null,
    counts json not null,
    expires_at timestamptz(3) not null,
    primary key (tenant, key_hash)
  )`,
  `create index session_accounts_expired on toolloop.session_accounts (expires_at)`,
];

/**
 * Runs; those without a request are not durable, and only their actors resume them. `text` where
 * others have `json`: the database is never asked what is in it, and it is written as a list. No
 * index holds a column that every write changes, so that PostgreSQL writes none of them (a
 * heap-only update), and the events of a write are one row, with what a step ended with. `writes`
 * counts those of a run, whose parts are in that order. What belongs to a run goes with it by a
 * trigger: a foreign key asks once more for the row that each write holds. `turn` orders what is
 * queued: tenants take turns.
 */
const RUNS = [
  `create table toolloop.runs (
    run_id text primary key,
    position bigint generated always as identity,
    tenant text not null,
    actor_id text not null,
    loop text,
    request text,
    fork_of text,
    status text not null check (status in ('queued', 'running', 'waiting', 'ended')),
    finish_reason text,
    waiting_for text,
    owner text check ((owner is not null) = (status = 'running')),
    epoch int not null default 1,
    expires_at timestamptz(3) check ((expires_at is not null) = (status = 'running')),
    is_woken boolean not null default false,
    turn int check (status <> 'queued' or turn is not null),
    cancelled text,
    last_sequence int not null default 0,
    writes int not null default 1,
    put_offs int not null default 0,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    ended_at timestamptz
  )`,
  `create index runs_of_actor on toolloop.runs (tenant, actor_id, position)`,
  `create index runs_running on toolloop.runs (run_id) where status = 'running'`,
  `create index runs_queued on toolloop.runs (tenant, turn) where status = 'queued'`,
  `create index runs_in_turn on toolloop.runs (turn) where status = 'queued'`,
  `create index runs_ended on toolloop.runs (ended_at) where ended_at is not null`,
  `create index runs_suspended on toolloop.runs (run_id) where request is null and status = 'waiting'`,
  `create table toolloop.run_entries (
    run_id text not null, position bigint not null, key_hash text not null, entry text not null, primary key (run_id, key_hash)
  )`,
  `create table toolloop.run_events (
    run_id text not null, position bigint not null, sequence int not null, event_count int not null, events text not null, ends text,
    primary key (run_id, sequence)
  )`,
  `create table toolloop.run_looks (run_id text not null, look_at timestamptz(3) not null, primary key (run_id, look_at))`,
  `create index run_looks_due on toolloop.run_looks (look_at)`,
  `create function toolloop.delete_parts() returns trigger language plpgsql as $$ begin
    delete from toolloop.run_entries as part using deleted where part.run_id = deleted.run_id;
    delete from toolloop.run_events as part using deleted where part.run_id = deleted.run_id;
    delete from toolloop.run_looks as part using deleted where part.run_id = deleted.run_id;
    return null; end $$`,
  `create trigger runs_deleted after delete on toolloop.runs referencing old table as deleted for each statement execute function toolloop.delete_parts()`,
];

/**
 * The entries that the audit has not taken, until it has them. They are of no run: one that is
 * deleted leaves them.
 */
const OWED_AUDIT = [
  `create table toolloop.owed_audit (entry_id text collate "C" primary key, at text collate "C" not null, entry text not null)`,
  `create index owed_audit_in_time on toolloop.owed_audit (at, entry_id)`,
];

/**
 * Directives. Keys, subjects and actors are hashed for looking them up, and `intent` has them in
 * clear. A row that is due some time, or whose lease expires, has a job in the queue that says so;
 * times are whole milliseconds, so that a job and its row never differ.
 */
const DIRECTIVES = [
  `create table toolloop.directives (
    tenant text not null,
    directive_id text not null,
    position bigint generated always as identity,
    key_hash text not null,
    subject_hash text not null,
    actor_hash text not null,
    intent text not null,
    task text not null default 'perform' check (task in ('perform', 'compensate')),
    status text not null default 'pending' check (
      status in ('pending', 'performing', 'succeeded', 'unknown_outcome', 'dead', 'cancelled', 'compensated')
    ),
    attempts int not null default 0,
    put_offs int not null default 0,
    due_at timestamptz(3) check ((due_at is not null) = (status = 'pending')),
    owner text check ((owner is not null) = (status = 'performing')),
    epoch int not null default 0,
    expires_at timestamptz(3) check ((expires_at is not null) = (status = 'performing')),
    result text,
    failure text,
    updated_at timestamptz not null,
    primary key (tenant, directive_id),
    unique (tenant, key_hash)
  )`,
  `create index directives_of_tenant on toolloop.directives (tenant, position)`,
  `create index directives_of_status on toolloop.directives (tenant, status, position)`,
  `create index directives_of_subject on toolloop.directives (tenant, subject_hash, position)`,
  `create index directives_of_actor on toolloop.directives (tenant, actor_hash, position)`,
  `create index directives_due on toolloop.directives (coalesce(expires_at, due_at)) where status in ('pending', 'performing')`,
  `create index directives_performing on toolloop.directives (updated_at) where status = 'performing'`,
  `create index directives_over on toolloop.directives (updated_at) where status in ('succeeded', 'dead', 'cancelled', 'compensated')`,
];

/**
 * All migrations, in order. Contents are `json`, not `jsonb`: it keeps the text as it was written,
 * NUL and lone surrogates as their escapes, which `jsonb` refuses. Keys that clients choose are
 * hashed, so that their length and characters do not matter.
 */
export const MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    name: 'baseline',
    statements: [
      PENDING,
      CALLS,
      AUDIT,
      CONVERSATIONS,
      POLICIES,
      USAGE,
      QUOTAS,
      ACCOUNTS,
      RUNS,
      OWED_AUDIT,
      DIRECTIVES,
    ].flat(),
  },
];

/**
 * One step of the schema. What was released is never changed: what is wrong with it is mended by
 * the next one.
 */
export interface Migration {
  /** From 1, without a gap. */
  readonly version: number;
  readonly name: string;
  /** One statement each, the same on PGlite and PostgreSQL. */
  readonly statements: readonly string[];
}

/** The time for which a migration waits for others' locks. */
export interface LockPatience {
  /**
   * For one lock. Those who read the table meanwhile wait behind the migration, so it gives up soon
   * and lets them pass.
   */
  readonly lockTimeoutMs: number;
  /** The number of times it is begun, the first one included. */
  readonly attempts: number;
}

const PATIENCE: LockPatience = { lockTimeoutMs: 3_000, attempts: 20 };
const PAUSE_MS = 500;
/** SQLSTATE of a lock that was not got in time. */
const LOCK_NOT_AVAILABLE = '55P03';
/**
 * The number of the lock that makes only one process at a time migrate; any that no other
 * application uses.
 */
const MIGRATION_LOCK = 7_061_108_100;

/**
 * Brings the schema `toolloop` up to date, all or nothing, one process at a time. A migration that
 * does not get a lock in time is begun again.
 *
 * @throws `OutdatedDatabaseError` for a database of an older commit, and `ConfigurationError` for
 *   one that a newer release has migrated (old code would write what the new one does not
 *   understand) and for one that others keep locked.
 */
export async function migrate(
  database: Database,
  migrations = MIGRATIONS,
  patience = PATIENCE,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await database.transaction(() => migrateWithin(database, migrations, patience));
      return;
    } catch (error) {
      if (fromError(error).code !== LOCK_NOT_AVAILABLE) throw error;
      if (attempt >= patience.attempts) throw stillLocked(attempt);
      await wait(PAUSE_MS);
    }
  }
}

async function migrateWithin(
  database: Database,
  migrations: readonly Migration[],
  { lockTimeoutMs }: LockPatience,
): Promise<void> {
  await database.query(`select set_config('lock_timeout', $1, true)`, [String(lockTimeoutMs)]);
  await database.query('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
  const applied = (await exists(database))
    ? await appliedTo(database)
    : await createSchema(database);
  assertKnown(applied, migrations);
  for (const migration of migrations.slice(applied.length)) await apply(database, migration);
}

/** A migration that a database has had. Before there was one baseline, a row had no checksum. */
interface AppliedMigration {
  readonly version: number;
  readonly checksum: string | null;
}

async function exists(database: Database): Promise<boolean> {
  const [row] = await database.query<{ found: boolean }>(
    `select to_regclass('toolloop.migrations') is not null as found`,
  );
  return row?.found ?? false;
}

async function createSchema(database: Database): Promise<readonly AppliedMigration[]> {
  await database.query('create schema if not exists toolloop');
  await database.query(
    `create table toolloop.migrations (
      version int primary key, name text not null, checksum text not null, applied_at timestamptz not null default now()
    )`,
  );
  return [];
}

function appliedTo(database: Database): Promise<readonly AppliedMigration[]> {
  return database.query<AppliedMigration>(
    `select version, to_jsonb(applied)->>'checksum' as checksum from toolloop.migrations as applied order by version`,
  );
}

async function apply(database: Database, migration: Migration): Promise<void> {
  const { version, name, statements } = migration;
  for (const statement of statements) await database.query(statement);
  await database.query(
    'insert into toolloop.migrations (version, name, checksum) values ($1, $2, $3)',
    [version, name, checksumOf(migration)],
  );
}

/**
 * Tells a migration that was changed after it had been applied: before the first release the
 * baseline is.
 */
function checksumOf({ statements }: Migration): string {
  return hash('sha256', JSON.stringify(statements));
}

function assertKnown(applied: readonly AppliedMigration[], migrations: readonly Migration[]): void {
  const known = migrations.slice(0, applied.length);
  if (known.some((migration, index) => applied[index]?.checksum !== checksumOf(migration)))
    throw new OutdatedDatabaseError();
  if (applied.length <= migrations.length) return;
  throw new ConfigurationError([
    {
      at: 'DurableModule database',
      problem: `A newer release has migrated the database: its schema has version ${applied.at(-1)?.version}, and this release knows ${migrations.length}.`,
      remedy: 'Start the newer release, or restore a backup from before it.',
    },
  ]);
}

/**
 * Says that a database was made by a commit before the first release, whose tables are not those of
 * this one.
 */
export class OutdatedDatabaseError extends Error {
  override readonly name = 'OutdatedDatabaseError';
  readonly code = 'outdated_database';

  constructor() {
    super(
      'The database was made by an older commit of Toolloop, and its tables cannot be brought up to date: start with a new database or data folder.',
    );
  }
}

function stillLocked(attempts: number): ConfigurationError {
  return new ConfigurationError([
    {
      at: 'DurableModule database',
      problem: `The schema cannot be migrated: another session keeps its tables locked (${attempts} attempts).`,
      remedy:
        'End the transaction that is open on the schema toolloop (pg_stat_activity names its session), and start again.',
    },
  ]);
}
