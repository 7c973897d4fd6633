import { afterAll, beforeAll } from '@jest/globals';
import { SqlStores, openDatabase, type Database } from '@toolloop/durable';
import { createFolder } from './databases.js';
import { sqlContracts } from './sql-contracts.js';

let folder: Awaited<ReturnType<typeof createFolder>>;
let database: Database;

beforeAll(async () => {
  folder = await createFolder();
  database = await openDatabase({ dataDir: folder.dataDir });
}, 30_000);
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
