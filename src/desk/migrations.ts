import { ConfigurationError } from '@toolloop/core';
import type { Database } from '@toolloop/durable';
import { sampleRows } from './seed.js';

/**
 * One step of the desk's schema. What was released is never changed: what is wrong with it is
 * mended by the next one.
 */
interface Migration {
  readonly name: string;
  run(this: void, database: Database): Promise<void>;
}

const TABLES = [
  `create table desk.customers (
    tenant text not null,
    id text not null,
    name text not null,
    search_name text not null,
    email text not null,
    city text not null,
    customer_since date not null,
    currency text not null,
    primary key (tenant, id)
  )`,
  `create table desk.products (
    tenant text not null,
    id text not null,
    name text not null,
    price numeric(12, 2) not null check (price >= 0),
    currency text not null,
    in_stock integer not null check (in_stock >= 0),
    primary key (tenant, id)
  )`,
  // A foreign key is checked without row level security: only with the tenant in it does it refuse
  // another tenant's customer.
  `create table desk.orders (
    tenant text not null,
    id text not null,
    customer_id text not null,
    placed_on date not null,
    status text not null,
    total numeric(12, 2) not null,
    currency text not null,
    lines jsonb not null,
    primary key (tenant, id),
    foreign key (tenant, customer_id) references desk.customers (tenant, id)
  )`,
  'create index orders_of_customer on desk.orders (tenant, customer_id, placed_on)',
  `create table desk.carts (
    tenant text not null,
    id text not null,
    customer_id text not null,
    status text not null,
    items jsonb not null,
    primary key (tenant, id),
    foreign key (tenant, customer_id) references desk.customers (tenant, id)
  )`,
];

/** As `gateway.statements([Customer, Product, Order, Cart])` printed them. */
export const ROW_SECURITY: readonly string[] = [
  `do $$ begin if not exists (select from pg_roles where rolname = 'toolloop_desk') then create role "toolloop_desk" nologin; end if; end $$`,
  'grant "toolloop_desk" to current_user',
  'grant usage on schema "desk" to "toolloop_desk"',
  'grant usage on all sequences in schema "desk" to "toolloop_desk"',
  ...['customers', 'products', 'orders', 'carts'].flatMap((table) => [
    `grant select, insert, update, delete on "desk"."${table}" to "toolloop_desk"`,
    `alter table "desk"."${table}" enable row level security`,
    `alter table "desk"."${table}" force row level security`,
    `drop policy if exists toolloop_tenant on "desk"."${table}"`,
    `create policy toolloop_tenant on "desk"."${table}" using ("tenant"::text = current_setting('toolloop.tenant', true)) with check ("tenant"::text = current_setting('toolloop.tenant', true))`,
  ]),
];

const MIGRATIONS: readonly Migration[] = [
  { name: 'tables', run: (database) => runAll(database, TABLES) },
  { name: 'sample data', run: insertSamples },
  { name: 'row level security', run: (database) => runAll(database, ROW_SECURITY) },
];

async function runAll(database: Database, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await database.query(statement);
}

/**
 * It belongs to all tenants, so it comes before row level security, which would hide it from the
 * owner of the tables as well.
 */
async function insertSamples(database: Database): Promise<void> {
  for (const [table, rows] of Object.entries(sampleRows()))
    await database.query(
      `insert into desk.${table} select * from jsonb_populate_recordset(null::desk.${table}, $1)`,
      [JSON.stringify(rows)],
    );
}

/** The number of the lock that makes only one of several desks that start together migrate. */
const LOCK = 7_061_108_200;

/**
 * Brings the tables of the desk up to date, all or nothing: each migration runs once in the life of
 * a database.
 *
 * @throws {ConfigurationError} Where the user of the database may not.
 */
export async function migrate(database: Database): Promise<void> {
  try {
    await database.transaction(async () => {
      await database.query('select pg_advisory_xact_lock($1)', [LOCK]);
      await database.query('create schema if not exists desk');
      await database.query(
        'create table if not exists desk.migrations (name text primary key, applied_at timestamptz not null default now())',
      );
      const applied = await database.query<{ readonly name: string }>(
        'select name from desk.migrations',
      );
      for (const { name, run } of MIGRATIONS.filter(
        (migration) => !applied.some((one) => one.name === migration.name),
      )) {
        await run(database);
        await database.query('insert into desk.migrations (name) values ($1)', [name]);
      }
    });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === INSUFFICIENT_PRIVILEGE)
      throw forbidden(error);
    throw error;
  }
}

/** SQLSTATE of what a user of the database may not do. */
const INSUFFICIENT_PRIVILEGE = '42501';

function forbidden({ message }: Error): ConfigurationError {
  const remedy =
    'Start the desk once as a user who may create schemas and roles, or give its user both: CREATE on the database, and CREATEROLE.';
  return new ConfigurationError([
    { at: 'DATABASE_URL', problem: `The tables of the desk cannot be made: ${message}.`, remedy },
  ]);
}
