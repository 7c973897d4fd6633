import { afterAll, beforeAll, describe, it, jest } from '@jest/globals';
import { JobQueue, SqlDirectiveStore, openDatabase, type Database } from '@toolloop/durable';
import { directiveStoreContract } from '@toolloop/testing';
import { createFolder } from './databases.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
jest.setTimeout(60_000);

let folder: Awaited<ReturnType<typeof createFolder>>;
let database: Database;
let jobs: JobQueue;

async function open(): Promise<void> {
  database = await openDatabase({ dataDir: folder.dataDir });
  jobs = new JobQueue(database);
}

async function close(): Promise<void> {
  await jobs.onApplicationShutdown();
  await database.close();
}

directiveStoreContract(
  'on PGlite',
  async () => {
    folder = await createFolder();
    await open();
    const reopen = async (): Promise<SqlDirectiveStore> => {
      await close();
      await open();
      return new SqlDirectiveStore(database, jobs);
    };
    return {
      store: new SqlDirectiveStore(database, jobs),
      other: new SqlDirectiveStore(database, jobs),
      reopen,
      close: () => close().then(() => folder.drop()),
    };
  },
  { describe, it, beforeAll, afterAll },
);
