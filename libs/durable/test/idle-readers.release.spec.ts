import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, jest } from '@jest/globals';
import type { LoopEvent } from '@toolloop/core';
import { type Database, DurableHealth, JobQueue, SqlRunLog, SqlStores } from '@toolloop/durable';
import type { Subscription } from 'rxjs';
import { onEachDatabase } from './each-database.js';
import { DeskProcess } from './fixtures/desk.process.js';
import { alice, idle, scripted } from './fixtures/durable-runs.js';

const RUNS = 1_000;
const READERS_OF_A_RUN = 10;
const IDLE_MS = 10_000;
/** As often as a run is looked at. */
const LOOK_MS = 5_000;
/** Statements in that time: readers that have nothing to be told share their questions. */
const MOST_STATEMENTS = 100;

function event(runId: string, sequence: number): LoopEvent {
  return {
    type: 'text-delta',
    step: 1,
    text: 'x',
    runId,
    sequence,
    timestamp: new Date().toISOString(),
  };
}

/** 1,000 runs, each of which is at work in another process and shows nothing for now. */
async function addRuns(log: SqlRunLog): Promise<readonly string[]> {
  const runIds = Array.from({ length: RUNS }, (_, index) => `run_${index}`);
  for (const runId of runIds) {
    const run = { runId, tenant: 'acme', actorId: 'alice', request: { prompt: 'Go on.' } };
    const lease = await log.begin(run, { owner: 'another process', forMs: 3_600_000 });
    await log.append(
      { runId, ...lease },
      { entries: [], events: [event(runId, 1), event(runId, 2)] },
    );
  }
  return runIds;
}

/** Asks whether the database is ready, again and again until `until` settles. */
async function readyUntil(database: Database, until: Promise<unknown>): Promise<void> {
  const health = new DurableHealth(database);
  const over = until.then(() => 'over');
  do expect(await health.readiness()).toMatchObject({ isReady: true });
  while ((await Promise.race([over, wait(500)])) !== 'over');
}

onEachDatabase('10,000 idle readers of 1,000 runs', (open) => {
  let jobs: JobQueue;
  let desk: DeskProcess;
  beforeAll(async () => {
    jobs = new JobQueue(open());
    const runs = new SqlRunLog(open(), jobs);
    const kept = { runs, stores: new SqlStores(open(), runs), close: () => Promise.resolve() };
    desk = await DeskProcess.start({ effects: [], open: () => Promise.resolve(kept) }, scripted(), {
      options: idle,
    });
  });
  afterAll(async () => {
    await desk.close();
    await jobs.onApplicationShutdown();
  });

  it('are all shown what comes, let the database be ready, and ask it little while nothing comes', async () => {
    const log = new SqlRunLog(open(), jobs);
    const runIds = await addRuns(log);
    const shown = new Map<string, number>();
    const subscriptions: Subscription[] = [];
    const come = async (): Promise<void> => {
      for (let index = 0; index < RUNS * READERS_OF_A_RUN; index += 1) {
        const runId = runIds[index % RUNS] ?? '';
        const see = (): void => void shown.set(runId, (shown.get(runId) ?? 0) + 1);
        subscriptions.push(desk.runs.events(runId, alice).subscribe(see));
      }
      while (
        [...shown.values()].reduce((sum, count) => sum + count, 0) <
        2 * RUNS * READERS_OF_A_RUN
      )
        await wait(20);
    };
    await readyUntil(open(), come());
    const statements = jest.spyOn(open(), 'query');
    const asked = async (ms: number): Promise<number> => {
      const before = statements.mock.calls.length;
      await wait(ms);
      return statements.mock.calls.length - before;
    };
    while ((await asked(LOOK_MS)) >= MOST_STATEMENTS); // until all have been looked at once
    const whileIdle = await asked(IDLE_MS);
    statements.mockRestore();
    const [runId = ''] = runIds;
    const owner = 'another process';
    await log.append({ runId, owner, epoch: 1 }, { entries: [], events: [event(runId, 3)] });
    while ((shown.get(runId) ?? 0) < 3 * READERS_OF_A_RUN) await wait(5);
    for (const subscription of subscriptions) subscription.unsubscribe();
    process.stdout.write(`${open().engine}: ${whileIdle} statements in ${IDLE_MS / 1_000} s\n`);
    expect(whileIdle).toBeLessThan(MOST_STATEMENTS);
  });
});
