import { afterAll, beforeAll, it } from '@jest/globals';
import { JobQueue, SqlRunStore, openDatabase, type Database } from '@toolloop/durable';
import { runStoreContract } from '@toolloop/testing';
import { createServerDatabase, describePostgres } from './databases.js';

const opened: { readonly database: Database; readonly jobs: JobQueue }[] = [];

async function open(url: string): Promise<SqlRunStore> {
  const database = await openDatabase({ url });
  const jobs = new JobQueue(database);
  opened.push({ database, jobs });
  return new SqlRunStore(database, jobs);
}

runStoreContract(
  'on PostgreSQL',
  async () => {
    const { url, drop } = await createServerDatabase();
    const close = async (): Promise<void> => {
      for (const { database, jobs } of opened.splice(0)) {
        await jobs.onApplicationShutdown();
        await database.close();
      }
      await drop();
    };
    return { store: await open(url), other: await open(url), reopen: () => open(url), close };
  },
  { describe: describePostgres, it, beforeAll, afterAll },
);
