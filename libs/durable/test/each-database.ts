import { afterAll, beforeAll, describe } from '@jest/globals';
import { openDatabase, type Database } from '@toolloop/durable';
import { createServerDatabase, describePostgres, openInMemory } from './databases.js';

/** The cases of a suite, which are given what opens their database. */
type Suite = (database: () => Database) => void;

/** Runs a suite on PGlite, and on PostgreSQL if there is a server. */
export function onEachDatabase(name: string, suite: Suite): void {
  onPglite(name, suite);
  onPostgres(name, suite);
}

/** Runs a suite on PGlite. */
export function onPglite(name: string, suite: Suite): void {
  describe(`${name}, on PGlite`, () => {
    let database: Database;
    beforeAll(async () => {
      database = await openInMemory();
    });
    afterAll(() => database.close());
    suite(() => database);
  });
}

/** Runs a suite on PostgreSQL if there is a server. */
export function onPostgres(name: string, suite: Suite): void {
  describePostgres(`${name}, on PostgreSQL`, () => {
    let database: Database;
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
