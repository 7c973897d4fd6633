import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { tool } from '@toolloop/core';
import { type Database, JobQueue, SqlRunLog, SqlStores } from '@toolloop/durable';
import { type ScriptedTurn, call, calls, text } from '@toolloop/testing';
import type { JSONSchema7 } from 'json-schema';
import { onEachDatabase } from './each-database.js';
import { DeskProcess } from './fixtures/desk.process.js';
import { alice, idle, scripted } from './fixtures/durable-runs.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
const RUNS = 20;
const STEPS = 10;
/** The limit for the run itself: its row, its entries and its events, with their indexes. */
const MOST_BYTES = 37_000;
const TABLES = [
  'toolloop.runs',
  'toolloop.run_entries',
  'toolloop.run_events',
  'toolloop.calls',
  'pgboss.job',
];

/** About 1 KB of JSON, of which little is said twice. */
function rowsOf(page: number): readonly object[] {
  return Array.from({ length: 11 }, (_, row) => {
    const number = page * 11 + row;
    return {
      id: `order-${number}`,
      name: `Customer ${(number * 7919) % 1_000}`,
      city: 'Dublin',
      isOpen: number % 3 === 0,
      total: (number * 4_219) / 100,
    };
  });
}

const page: JSONSchema7 = {
  type: 'object',
  properties: { page: { type: 'integer' } },
  required: ['page'],
};
const tools = [
  tool({
    id: 'orders',
    description: 'Lists orders.',
    input: page,
    effect: 'read_only',
    reveal: 'all',
    execute: (input) => rowsOf((input as { page: number }).page),
  }),
  tool({
    id: 'ship',
    description: 'Ships orders.',
    input: page,
    effect: 'state_change',
    reveal: 'all',
    execute: (input) => rowsOf((input as { page: number }).page),
  }),
];

/** Ten answers, nine of them with a call, two thirds of which are reads. */
function answers(run: number): readonly ScriptedTurn[] {
  const asked = Array.from({ length: STEPS - 1 }, (_, step) =>
    calls(call(step % 3 === 2 ? 'ship' : 'orders', { page: run * STEPS + step })),
  );
  return [
    ...asked,
    text('They ordered a good deal, and most of it is on its way to Dublin by now.'),
  ];
}

/** The least of three passes: a row that another transaction still sees stays through a pass. */
async function bytesOf(database: Database, table: string): Promise<number> {
  let least = Infinity;
  for (let pass = 0; pass < 3; pass += 1) {
    await database.query(`vacuum full ${table}`);
    const [row] = await database.query<{ bytes: number }>(
      `select pg_total_relation_size('${table}')::int as bytes`,
    );
    least = Math.min(least, row?.bytes ?? Number.NaN);
  }
  return least;
}

onEachDatabase('what a run of ten steps leaves', (open) => {
  let jobs: JobQueue;
  let desk: DeskProcess;
  beforeAll(async () => {
    jobs = new JobQueue(open());
    const runs = new SqlRunLog(open(), jobs);
    const kept = { runs, stores: new SqlStores(open(), runs), close: () => Promise.resolve() };
    const model = scripted(...Array.from({ length: RUNS }, (_, run) => answers(run)).flat());
    desk = await DeskProcess.start({ effects: [], open: () => Promise.resolve(kept) }, model, {
      options: idle,
      tools,
    });
  });
  afterAll(async () => {
    await desk.close();
    await jobs.onApplicationShutdown();
  });

  it(`is at most ${MOST_BYTES / 1_000} KB of the run itself`, async () => {
    const empty = new Map<string, number>();
    for (const table of TABLES) empty.set(table, await bytesOf(open(), table));
    for (let run = 0; run < RUNS; run += 1) {
      const { finishReason, steps } = await desk.loop.run({
        ...alice,
        durable: true,
        limits: { callsPerTool: STEPS },
      });
      expect([finishReason, steps]).toEqual(['stop', STEPS]);
    }
    const bytes = new Map<string, number>();
    for (const table of TABLES)
      bytes.set(table, ((await bytesOf(open(), table)) - (empty.get(table) ?? 0)) / RUNS);
    const shown = [...bytes]
      .map(([table, each]) => `${table} ${(each / 1_000).toFixed(1)} KB`)
      .join(', ');
    process.stdout.write(`${open().engine}, a run of ten steps: ${shown}\n`);
    const ofTheRun = TABLES.slice(0, 3).reduce((sum, table) => sum + (bytes.get(table) ?? 0), 0);
    expect(ofTheRun).toBeLessThan(MOST_BYTES);
  });
});
