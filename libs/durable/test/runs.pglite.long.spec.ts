import { afterAll, beforeAll, describe } from '@jest/globals';
import { JobQueue, SqlRunLog, SqlStores, type Database } from '@toolloop/durable';
import { openInMemory } from './databases.js';
import type { Kept } from './fixtures/desk.process.js';
import { policyReplaySuite } from './policy-replay-suite.js';
import { repeatedCallsSuite } from './repeated-calls-suite.js';
import { repeatedRunsSuite } from './repeated-runs-suite.js';
import { runsSuite } from './runs-suite.js';
import { unreadableRunsSuite } from './unreadable-runs-suite.js';

let database: Database;
let jobs: JobQueue;
let kept: Kept;

beforeAll(async () => {
  database = await openInMemory();
  jobs = new JobQueue(database);
  const runs = new SqlRunLog(database, jobs);
  kept = { runs, stores: new SqlStores(database, runs), close: () => Promise.resolve() };
}, 30_000);

afterAll(async () => {
  await jobs.onApplicationShutdown();
  await database.close();
});

runsSuite('on PGlite', () => Promise.resolve(kept), describe);
repeatedCallsSuite('on PGlite', () => Promise.resolve(kept), describe);
repeatedRunsSuite('on PGlite', () => Promise.resolve(kept), describe);
unreadableRunsSuite('on PGlite', () => Promise.resolve(kept), describe);
policyReplaySuite('on PGlite', () => Promise.resolve(kept), describe);
