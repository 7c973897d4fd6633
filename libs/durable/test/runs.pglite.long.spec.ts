import { afterAll, describe } from '@jest/globals';
import { JobQueue, SqlRunLog, SqlStores } from '@toolloop/durable';
import { openInMemory } from './databases.js';
import type { Kept } from './fixtures/desk.process.js';
import { pluginValuesSuite } from './plugin-values-suite.js';
import { policyReplaySuite } from './policy-replay-suite.js';
import { repeatedCallsSuite } from './repeated-calls-suite.js';
import { repeatedRunsSuite } from './repeated-runs-suite.js';
import { runsSuite } from './runs-suite.js';
import { unreadableRunsSuite } from './unreadable-runs-suite.js';

const closing: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of closing) await close();
});

/** A database that is made when a suite first asks for it, and lasts for all of them. */
function keptOnce(): () => Promise<Kept> {
  let kept: Promise<Kept> | undefined;
  return () => (kept ??= openKept());
}

async function openKept(): Promise<Kept> {
  const database = await openInMemory();
  const jobs = new JobQueue(database);
  closing.push(async () => {
    await jobs.onApplicationShutdown();
    await database.close();
  });
  const runs = new SqlRunLog(database, jobs);
  return { runs, stores: new SqlStores(database, runs), close: () => Promise.resolve() };
}

const shared = keptOnce();
runsSuite('on PGlite', shared, describe);
repeatedCallsSuite('on PGlite', shared, describe);
repeatedRunsSuite('on PGlite', shared, describe);
unreadableRunsSuite('on PGlite', shared, describe);
// A run that another suite has left would be continued by a process of this one, with its script.
policyReplaySuite('on PGlite', keptOnce(), describe);
pluginValuesSuite('on PGlite', shared, describe);
