import { afterAll, beforeAll } from '@jest/globals';
import { JobQueue, SqlRunLog, SqlStores, openDatabase } from '@toolloop/durable';
import { createServerDatabase, describePostgres, hasServer } from './databases.js';
import type { Kept } from './fixtures/desk.process.js';
import { pluginValuesSuite } from './plugin-values-suite.js';
import { policyReplaySuite } from './policy-replay-suite.js';
import { repeatedCallsSuite } from './repeated-calls-suite.js';
import { repeatedRunsSuite } from './repeated-runs-suite.js';
import { runsSuite } from './runs-suite.js';
import { unreadableRunsSuite } from './unreadable-runs-suite.js';

let server: Awaited<ReturnType<typeof createServerDatabase>>;

async function open(): Promise<Kept> {
  const database = await openDatabase({ url: server.url, connections: 3 });
  const jobs = new JobQueue(database);
  const runs = new SqlRunLog(database, jobs);
  const close = async (): Promise<void> => {
    await jobs.onApplicationShutdown();
    await database.close();
  };
  return { runs, stores: new SqlStores(database, runs), close };
}

if (hasServer) {
  beforeAll(async () => {
    server = await createServerDatabase();
  });

  afterAll(() => server.drop());
}

runsSuite('on PostgreSQL', open, describePostgres);
repeatedCallsSuite('on PostgreSQL', open, describePostgres);
repeatedRunsSuite('on PostgreSQL', open, describePostgres);
unreadableRunsSuite('on PostgreSQL', open, describePostgres);
policyReplaySuite('on PostgreSQL', open, describePostgres);
pluginValuesSuite('on PostgreSQL', open, describePostgres);
