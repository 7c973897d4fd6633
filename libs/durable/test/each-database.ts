import { afterAll, beforeAll, describe } from '@jest/globals';
import { openDatabase, type Database } from '@toolloop/durable';
import { createServerDatabase, describePostgres, openInMemory } from './databases.js';

/** Runs a suite on PGlite, and on PostgreSQL where there is a server. */
export function onEachDatabase(name: string, suite: (database: () => Database) => void): void {
  let database: Database;
  describe(`${name}, on PGlite`, () => {
    beforeAll(async () => {
      database = await openInMemory();
    });
    afterAll(() => database.close());
    suite(() => database);
  });
  describePostgres(`${name}, on PostgreSQL`, () => {
    let drop: () => Promise<void>;
    beforeAll(async () => {
      const server = await createServerDatabase();
      drop = server.drop;
      database = await openDatabase({ url: server.url });
    });
    afterAll(async () => {
      await database.close();
      await drop();
    });
    suite(() => database);
  });
}
