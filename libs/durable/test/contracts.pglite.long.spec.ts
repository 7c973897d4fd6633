import { afterAll, beforeAll } from '@jest/globals';
import { SqlStores, openDatabase, type Database } from '@toolloop/durable';
import { createDatabaseFolder } from './databases.js';
import { sqlContracts } from './sql-contracts.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
let folder: Awaited<ReturnType<typeof createDatabaseFolder>>;
let database: Database;

beforeAll(async () => {
  folder = await createDatabaseFolder();
  database = await openDatabase({ dataDir: folder.dataDir });
});
afterAll(async () => {
  await database.close();
  await folder.drop();
});

sqlContracts('on PGlite', () =>
  Promise.resolve({
    store: new SqlStores(database),
    other: new SqlStores(database),
    reopen: async () => {
      await database.close();
      database = await openDatabase({ dataDir: folder.dataDir });
      return new SqlStores(database);
    },
  }),
);
