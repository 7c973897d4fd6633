import { ConfigurationError } from '@toolloop/core';
import type { Database } from '../database/database.js';
import { STORES } from './001-stores.js';
import { RUNS } from './002-runs.js';
import { EFFECTS } from './003-effects.js';
import { CONVERSATION_RUNS } from './004-conversation-runs.js';
import { DIRECTIVES } from './005-directives.js';
import { RUN_WRITES } from './006-run-writes.js';
import { CALL_CLAIMS } from './007-call-claims.js';
import type { Migration } from './migration.js';

/** All there are, in order. */
export const MIGRATIONS: readonly Migration[] = [STORES, RUNS, EFFECTS, CONVERSATION_RUNS, DIRECTIVES, RUN_WRITES, CALL_CLAIMS];

/** Of the lock that only one process at a time migrates under; any number that nobody else uses. */
const LOCK = 7_061_108_100;

/**
 * Brings the schema `toolloop` up to the code, all or nothing, one process at a time. Throws `ConfigurationError` for a database that a newer release has
 * been at: old code would write what the new one does not understand.
 */
export async function migrate(database: Database, migrations: readonly Migration[] = MIGRATIONS): Promise<void> {
  await database.transaction(async () => {
    await database.query('select pg_advisory_xact_lock($1)', [LOCK]);
    if (!(await exists(database))) await createSchema(database);
    const applied = await versionOf(database);
    assertKnown(applied, migrations.length);
    for (const migration of migrations.slice(applied)) await apply(database, migration);
  });
}

async function exists(database: Database): Promise<boolean> {
  const [row] = await database.query<{ found: boolean }>(`select to_regclass('toolloop.migrations') is not null as found`);
  return row?.found ?? false;
}

async function createSchema(database: Database): Promise<void> {
  await database.query('create schema if not exists toolloop');
  await database.query(
    'create table toolloop.migrations (version int primary key, name text not null, applied_at timestamptz not null default now())',
  );
}

async function versionOf(database: Database): Promise<number> {
  const [row] = await database.query<{ version: number }>('select coalesce(max(version), 0)::int as version from toolloop.migrations');
  return row?.version ?? 0;
}

async function apply(database: Database, { version, name, statements }: Migration): Promise<void> {
  for (const statement of statements) await database.query(statement);
  await database.query('insert into toolloop.migrations (version, name) values ($1, $2)', [version, name]);
}

function assertKnown(applied: number, known: number): void {
  if (applied <= known) return;
  throw new ConfigurationError([
    {
      at: 'DurableModule database',
      problem: `A newer release has migrated the database: its schema has version ${applied}, and this release knows ${known}.`,
      remedy: 'Start the newer release, or restore a backup from before it.',
    },
  ]);
}
