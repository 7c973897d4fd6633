import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { type Database, JobQueue, SqlRunLog, SqlStores, openDatabase } from '@toolloop/durable';
import { StorageUnavailableError } from '@toolloop/protocol';
import { call, calls, expectTranscriptValid, text, type ScriptedTurn } from '@toolloop/testing';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { Pool } from 'pg';
import { createServerDatabase, describePostgres, onServer } from './databases.js';
import type { Kept, World } from './fixtures/desk.process.js';
import { alice, processStarter, scripted, until } from './fixtures/durable-runs.js';

const RUNS = 6;
const STEPS = 3;
const KILLS = 25;

describePostgres('invariant 17: runs whose connections to the database are ended', () => {
  const start = processStarter();
  let server: Awaited<ReturnType<typeof createServerDatabase>>;
  beforeEach(async () => {
    server = await createServerDatabase();
  });
  afterEach(() => server.drop());

  async function open(): Promise<Kept> {
    const database = await openDatabase({ url: server.url, connections: 4 });
    const jobs = new JobQueue(database);
    const runs = new SqlRunLog(database, jobs);
    const close = async (): Promise<void> => {
      await jobs.onApplicationShutdown();
      await database.close();
    };
    return { runs, stores: new SqlStores(database, runs), close };
  }

  /** Ends every connection of the application, again and again while it works. */
  async function endConnections(isOver: () => boolean): Promise<number> {
    const name = new URL(server.url).pathname.slice(1);
    let kills = 0;
    for (; kills < KILLS && !isOver(); kills += 1) {
      await onServer(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}' and pid <> pg_backend_pid()`,
      );
      await wait(15 + 25 * Math.random());
    }
    return kills;
  }

  it.each([
    ['durable', true],
    ['not durable', false],
  ])(
    'lose no call, make none twice, and tell the model nothing of it (%s)',
    async (_, durable) => {
      const world: World = { open, effects: [], during: () => wait(5) };
      const handles = [];
      const act = (run: number): ScriptedTurn[] => [
        ...Array.from({ length: STEPS }, (__, step) =>
          calls(call('desk__look', { key: 'l' }), call('desk__act', { key: `${run}.${step}` })),
        ),
        text('Done.'),
      ];
      let isOver = false;
      for (let run = 0; run < RUNS; run += 1) {
        const desk = await start(world, scripted(...act(run)), {
          options: { takeoverMs: 60_000, heartbeatMs: 5_000 },
        });
        handles.push({
          desk,
          handle: desk.loop.open({ ...alice, durable, conversationId: `c${run}` }),
        });
      }
      const ended = Promise.all(
        handles.map(async ({ desk, handle }) => {
          const result = await handle.result.catch((error: unknown) => error);
          if (durable) await until(desk, handle.runId, 'ended');
          return result;
        }),
      ).finally(() => (isOver = true));
      expect(await endConnections(() => isOver)).toBeGreaterThan(0);
      const results = await ended;
      expect(world.effects.toSorted()).toEqual(
        Array.from(
          { length: RUNS * STEPS },
          (__, index) => `acme ${Math.floor(index / STEPS)}.${index % STEPS}`,
        ).toSorted(),
      );
      for (const result of results) {
        expect(result).toMatchObject({ finishReason: 'stop', text: 'Done.' });
        expectTranscriptValid(result as Parameters<typeof expectTranscriptValid>[0]);
        expect(JSON.stringify((result as { messages: unknown }).messages)).not.toMatch(/errors/);
      }
    },
    60_000,
  );
});

describePostgres('a library whose connection is ended in its transaction', () => {
  it.each([
    ['a session of its own', undefined, (_: Database, work: () => Promise<void>) => work()],
    [
      'the transaction of the handle',
      'lost',
      (database: Database, work: () => Promise<void>) => database.transaction(work),
    ],
  ])('is refused its statements and gives the connection back (%s)', async (_, ending, within) => {
    const server = await createServerDatabase();
    const database = await openDatabase({ url: server.url, connections: 1 });
    const kysely = new Kysely({
      dialect: new PostgresDialect({ pool: new Pool(database.connection) }),
    });
    const loses = within(database, async () => {
      const own = await kysely.startTransaction().execute();
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(own);
      await onServer(`select pg_terminate_backend(${rows[0]?.pid})`);
      await expect(sql`select 1`.execute(own)).rejects.toThrow(/terminat|not queryable/);
      await own.rollback().execute();
    });
    await expect(
      loses.catch((error: unknown) => StorageUnavailableError.in(error) && 'lost'),
    ).resolves.toBe(ending);
    await expect(database.query('select 1 as one')).resolves.toEqual([{ one: 1 }]);
    await kysely.destroy();
    await database.close();
    await server.drop();
  });
});

describePostgres('a start whose connection is ended', () => {
  it('is begun again, and the schema is there', async () => {
    const server = await createServerDatabase();
    const name = new URL(server.url).pathname.slice(1);
    const holder = await openDatabase({ url: server.url, connections: 1 });
    await holder.query('drop schema toolloop cascade');
    let release!: () => void;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const holding = holder.transaction(async () => {
      await holder.query('select pg_advisory_xact_lock($1)', [7_061_108_100]);
      await held;
    });
    const starting = openDatabase({ url: server.url, connections: 1 });
    const waiting = `from pg_stat_activity where datname = '${name}' and wait_event = 'advisory'`;
    while ((await onServer(`select pg_terminate_backend(pid) ${waiting}`)) === 0) await wait(5);
    release();
    await holding;
    const database = await starting;
    await expect(database.query('select version from toolloop.migrations')).resolves.toEqual([
      { version: 1 },
    ]);
    await Promise.all([database.close(), holder.close()]);
    await server.drop();
  });
});
