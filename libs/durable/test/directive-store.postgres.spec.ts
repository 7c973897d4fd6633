import { afterAll, beforeAll, it, jest } from '@jest/globals';
import { JobQueue, SqlDirectiveStore, openDatabase, type Database } from '@toolloop/durable';
import { directiveStoreContract } from '@toolloop/testing';
import { createServerDatabase, describePostgres } from './databases.js';

jest.setTimeout(60_000); // what is due is looked for by polling

const opened: { readonly database: Database; readonly jobs: JobQueue }[] = [];

async function open(url: string): Promise<SqlDirectiveStore> {
  const database = await openDatabase({ url });
  const jobs = new JobQueue(database);
  opened.push({ database, jobs });
  return new SqlDirectiveStore(database, jobs);
}

directiveStoreContract(
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
