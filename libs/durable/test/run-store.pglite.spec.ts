import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { JobQueue, SqlRunStore, openDatabase, type Database } from '@toolloop/durable';
import { runStoreContract } from '@toolloop/testing';
import { createFolder } from './databases.js';

let folder: Awaited<ReturnType<typeof createFolder>>;
let database: Database;
let jobs: JobQueue;

async function open(): Promise<SqlRunStore> {
  database = await openDatabase({ dataDir: folder.dataDir });
  jobs = new JobQueue(database);
  return new SqlRunStore(database, jobs);
}

async function close(): Promise<void> {
  await jobs.onApplicationShutdown();
  await database.close();
}

runStoreContract(
  'on PGlite',
  async () => {
    folder = await createFolder();
    const reopen = async (): Promise<SqlRunStore> => {
      await close();
      return open();
    };
    return { store: await open(), reopen, close: () => close().then(() => folder.drop()) };
  },
  { describe, it, beforeAll: (body) => beforeAll(body, 30_000), afterAll },
);
