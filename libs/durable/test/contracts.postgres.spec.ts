import { afterAll, beforeAll } from '@jest/globals';
import { SqlStores, openDatabase } from '@toolloop/durable';
import { createServerDatabase, describePostgres } from './databases.js';
import { sqlContracts } from './sql-contracts.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
describePostgres('with a server', () => {
  let server: Awaited<ReturnType<typeof createServerDatabase>>;

  beforeAll(async () => {
    server = await createServerDatabase();
  });
  afterAll(() => server.drop());

  sqlContracts('on PostgreSQL', async () => {
    let one = await openDatabase({ url: server.url });
    const other = await openDatabase({ url: server.url });
    return {
      store: new SqlStores(one),
      other: new SqlStores(other),
      reopen: async () => {
        await one.close();
        one = await openDatabase({ url: server.url });
        return new SqlStores(one);
      },
      close: async () => {
        await Promise.all([one.close(), other.close()]);
      },
    };
  });
});
