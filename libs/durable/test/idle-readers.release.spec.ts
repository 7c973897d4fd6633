import { performance } from 'node:perf_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, jest } from '@jest/globals';
import type { LoopEvent } from '@toolloop/core';
import { type Database, DurableHealth, JobQueue, SqlRunLog, SqlStores } from '@toolloop/durable';
import type { Subscription } from 'rxjs';
import { onEachDatabase } from './each-database.js';
import { DeskProcess } from './fixtures/desk.process.js';
import { alice, idle, scripted } from './fixtures/durable-runs.js';

jest.setTimeout(180_000);

const RUNS = 1_000;
const READERS_OF_A_RUN = 10;
const IDLE_MS = 10_000;
const MOST_OF_A_CORE = 0.05;
const LONGEST_READINESS_MS = 250;

function event(runId: string, sequence: number): LoopEvent {
  return { type: 'text-delta', step: 1, text: 'x', runId, sequence, timestamp: new Date().toISOString() };
}

/** 1,000 runs, each of which is at work in another process and shows nothing for now. */
async function addRuns(log: SqlRunLog): Promise<readonly string[]> {
  const runIds = Array.from({ length: RUNS }, (_, index) => `run_${index}`);
  for (const runId of runIds) {
    const run = { runId, tenant: 'acme', actorId: 'alice', request: { prompt: 'Go on.' } };
    const lease = await log.begin(run, { owner: 'another process', forMs: 3_600_000 });
    await log.append({ runId, ...lease }, { entries: [], events: [event(runId, 1), event(runId, 2)] });
  }
  return runIds;
}

/** Resolves to the longest time that readiness took, asked again and again until `until` settles. */
async function slowestReadiness(database: Database, until: Promise<unknown>): Promise<number> {
  const health = new DurableHealth(database);
  const over = until.then(() => 'over');
  let slowest = 0;
  do {
    const began = performance.now();
    expect(await health.readiness()).toMatchObject({ isReady: true });
    slowest = Math.max(slowest, performance.now() - began);
  } while ((await Promise.race([over, wait(500)])) !== 'over');
  return slowest;
}

onEachDatabase('10,000 idle readers of 1,000 runs', (open) => {
  let jobs: JobQueue;
  let desk: DeskProcess;
  beforeAll(async () => {
    jobs = new JobQueue(open());
    const runs = new SqlRunLog(open(), jobs);
    const kept = { runs, stores: new SqlStores(open(), runs), close: () => Promise.resolve() };
    desk = await DeskProcess.start({ effects: [], open: () => Promise.resolve(kept) }, scripted(), { options: idle });
  }, 60_000);
  afterAll(async () => {
    await desk.close();
    await jobs.onApplicationShutdown();
  });

  it('are all shown what comes, and on a quiet machine take less than 5 % of a core and let readiness answer within 250 ms', async () => {
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
      while ([...shown.values()].reduce((sum, count) => sum + count, 0) < 2 * RUNS * READERS_OF_A_RUN) await wait(20);
    };
    const whileTheyCame = await slowestReadiness(open(), come());
    await wait(5_000); // until all have been looked at once
    const before = process.cpuUsage();
    const began = performance.now();
    const whileTheyWereThere = await slowestReadiness(open(), wait(IDLE_MS));
    const { user, system } = process.cpuUsage(before);
    const share = (user + system) / 1_000 / (performance.now() - began);
    const [runId = ''] = runIds;
    const owner = 'another process';
    await log.append({ runId, owner, epoch: 1 }, { entries: [], events: [event(runId, 3)] });
    while ((shown.get(runId) ?? 0) < 3 * READERS_OF_A_RUN) await wait(5);
    for (const subscription of subscriptions) subscription.unsubscribe();
    process.stdout.write(
      `${open().engine}: ${(share * 100).toFixed(1)} % of a core, readiness ${whileTheyCame.toFixed(0)} and ${whileTheyWereThere.toFixed(0)} ms at most\n`,
    );
    expect([share < MOST_OF_A_CORE, whileTheyCame < LONGEST_READINESS_MS, whileTheyWereThere < LONGEST_READINESS_MS]).toEqual([
      true,
      true,
      true,
    ]);
  });
});
