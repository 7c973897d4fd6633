import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { PgliteDriver } from '../src/database/pglite-driver.js';
import { inMemory } from './databases.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
let driver: PgliteDriver;

beforeEach(async () => {
  const { template } = await inMemory();
  jest.useFakeTimers({
    doNotFake: [
      'Date',
      'hrtime',
      'nextTick',
      'performance',
      'queueMicrotask',
      'setImmediate',
      'clearImmediate',
      'setTimeout',
      'clearTimeout',
    ],
  });
  driver = await PgliteDriver.inMemory(template);
});

afterEach(async () => {
  await driver.close();
  jest.useRealTimers();
});

async function look(): Promise<{ readonly bytes: number; readonly checkpoint: string }> {
  const [found] = await driver.query<{ bytes: number; checkpoint: string }>(
    `select pg_relation_size('things')::int as bytes, (select checkpoint_lsn::text from pg_control_checkpoint()) as checkpoint`,
    [],
  );
  if (!found) throw new Error('There is no such table.');
  return found;
}

it('gives the room of what was deleted back, and shortens its log, once a minute', async () => {
  await driver.query('create table things (words text)', []);
  await driver.query(
    `insert into things select repeat('x', 500) from generate_series(1, 2000)`,
    [],
  );
  await driver.query('delete from things', []);
  jest.advanceTimersByTime(59_000);
  // a tidying that had begun would have had its turn between these
  for (let looks = 0; looks < 20; looks += 1) await look();
  const before = await look();
  expect(before.bytes).toBeGreaterThan(500_000);
  jest.advanceTimersByTime(1_000);
  const until = Date.now() + 240_000;
  let now = before;
  while ((now.bytes > 0 || now.checkpoint === before.checkpoint) && Date.now() < until) {
    await wait(20);
    now = await look();
  }
  expect(now.bytes).toBe(0);
  expect(now.checkpoint).not.toBe(before.checkpoint);
});

/** Lets the driver tidy up, which ends with a checkpoint. */
async function aMinuteLater(): Promise<void> {
  const before = await checkpoint();
  jest.advanceTimersByTime(60_000);
  while ((await checkpoint()) === before) await wait(20);
}

async function checkpoint(): Promise<string | undefined> {
  const [row] = await driver.query<{ lsn: string }>(
    'select checkpoint_lsn::text as lsn from pg_control_checkpoint()',
    [],
  );
  return row?.lsn;
}

/** How often each table was vacuumed. */
async function vacuums(): Promise<Readonly<Record<string, number>>> {
  const rows = await driver.query<{ name: string; times: number }>(
    'select relname as name, vacuum_count::int as times from pg_stat_user_tables',
    [],
  );
  return Object.fromEntries(rows.map(({ name, times }) => [name, times]));
}

/** The changes of a table that are counted: those of a session once a second, or on demand. */
async function changesOf(table: string): Promise<number> {
  const [row] = await driver.query<{ changes: number }>(
    'select n_tup_upd::int as changes from pg_stat_user_tables where relname = $1',
    [table],
  );
  return row?.changes ?? 0;
}

it('vacuums a table at a time, so that others have their turn between two, and after the first time only those with something to give back', async () => {
  for (const table of ['busy', 'quiet']) {
    await driver.query(`create table ${table} (words text)`, []);
    await driver.query(`insert into ${table} values ('a')`, []);
  }
  await aMinuteLater();
  await driver.query(`update busy set words = 'b'`, []);
  await driver.query('select pg_stat_force_next_flush()', []);
  while ((await changesOf('busy')) < 1) await wait(20);
  await aMinuteLater();
  expect(await vacuums()).toEqual({ busy: 2, quiet: 1 });
});

const ALL = 100;

/**
 * Counts the turns that the event loop takes meanwhile: in each of them timers, sockets and signals
 * get theirs.
 */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let next: NodeJS.Immediate | undefined;
  const turn = (): void => {
    turns += 1;
    next = setImmediate(turn);
  };
  turn();
  await work();
  clearImmediate(next);
  return turns;
}

const atOnce = (ask: () => Promise<unknown>): Promise<unknown> =>
  Promise.all(Array.from({ length: ALL }, ask));

const COUNT = { name: 'count', text: 'select count(*) from pg_class' };
const THREE_STATEMENTS = ['select 1', 'select 2', 'select 3'];

it.each<[string, number, () => Promise<unknown>]>([
  ['statements', ALL, () => driver.query('select 1', [])],
  ['named statements', ALL, () => driver.query(COUNT, [])],
  ['statements of a library', ALL, () => driver.ask({ text: 'select $1::int', values: [1] })],
  ['statements that fail', ALL, () => driver.query('select nothing', []).catch(() => undefined)],
  [
    'statements of the job queue',
    ALL,
    () =>
      driver.connection.engine === 'pglite' ? driver.connection.pglite.query('select 1') : fail(),
  ],
  [
    'transactions of three statements',
    3 * ALL,
    () =>
      driver.transaction(async (session) => {
        for (const statement of THREE_STATEMENTS) await session.query(statement, []);
      }),
  ],
])(
  'lets the event loop take a turn after each of many %s that are asked at once',
  async (_, least, ask) => {
    expect(await turnsDuring(() => atOnce(ask))).toBeGreaterThanOrEqual(least);
  },
);

it('lets the event loop take a turn between two statements of which one follows at once', async () => {
  const turns = await turnsDuring(async () => {
    for (let index = 0; index < ALL; index += 1) await driver.query('select 1', []);
  });
  expect(turns).toBeGreaterThanOrEqual(ALL);
});

function fail(): never {
  throw new Error('It is no PGlite.');
}
