import { expect, it } from '@jest/globals';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { Database, type DatabaseDriver, JobQueue, SqlRunLog, SqlStores } from '@toolloop/durable';
import { migrate } from '../src/database/migrations.js';
import { PgliteDriver } from '../src/database/pglite-driver.js';
import { PostgresDriver } from '../src/database/postgres-driver.js';
import { createServerDatabase, describePostgres, inMemory } from './databases.js';
import { counting } from './fixtures/counting-driver.js';
import { DeskProcess, type World } from './fixtures/desk.process.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
const STEPS = 10;
const alice = { actor: { id: 'alice', tenant: 'acme' }, tenant: 'acme', prompt: 'Go on.' };

/** Resolves to what a run of ten steps commits that calls this tool in each of them. */
async function committedBy(
  driver: DatabaseDriver,
  tool: string,
  isAudited = false,
): Promise<readonly string[]> {
  const committed: string[] = [];
  const database = new Database(counting(driver, committed));
  await migrate(database);
  const jobs = new JobQueue(database);
  const runs = new SqlRunLog(database, jobs);
  const close = async (): Promise<void> => {
    await jobs.onApplicationShutdown();
    await database.close();
  };
  const world: World = {
    effects: [],
    open: () => Promise.resolve({ runs, stores: new SqlStores(database, runs), close }),
  };
  const steps = Array.from({ length: STEPS }, (_, step) =>
    calls(call(tool, { key: `key ${step}` })),
  );
  const process = await DeskProcess.start(
    world,
    new ScriptedModel([text('Hello.'), ...steps, text('Done.')]),
    {
      ...(isAudited && { audit: { key: 'a key of thirty-two bytes or more' } }),
    },
  );
  // what is prepared once for all runs is none of a run's
  await process.loop.run({ ...alice, durable: true });
  committed.length = 0;
  const { finishReason } = await process.loop.run({ ...alice, durable: true });
  const ofTheRun = [...committed];
  await process.close();
  expect(finishReason).toBe('stop');
  return ofTheRun;
}

/** Each commit waits for the disk, so a tenth more is a regression. */
const CASES = [
  { tool: 'desk__look', most: 12 },
  { tool: 'desk__act', most: 22 },
] as const;

it.each(CASES)(
  'commits a run of ten steps with $tool at most $most times, on PGlite',
  async ({ tool, most }) => {
    const { template } = await inMemory();
    expect(
      (await committedBy(await PgliteDriver.inMemory(template), tool)).length,
    ).toBeLessThanOrEqual(most * 1.1);
  },
);

describePostgres('on PostgreSQL', () => {
  it.each(CASES)(
    'commits a run of ten steps with $tool at most $most times',
    async ({ tool, most }) => {
      const server = await createServerDatabase();
      try {
        expect(
          (await committedBy(await PostgresDriver.connect(server.url), tool)).length,
        ).toBeLessThanOrEqual(most * 1.1);
      } finally {
        await server.drop();
      }
    },
  );
});
