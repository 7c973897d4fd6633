import { afterAll, beforeAll } from '@jest/globals';
import { Database, type DatabaseDriver } from '@toolloop/durable';
import { migrate } from '../src/database/migrations.js';
import { PostgresDriver } from '../src/database/postgres-driver.js';
import { diesAnywhere } from './crash-points-suite.js';
import { createServerDatabase, describePostgres } from './databases.js';

describePostgres('a process that dies at a commit, on PostgreSQL', () => {
  let driver: DatabaseDriver;
  let drop: () => Promise<void>;
  beforeAll(async () => {
    const server = await createServerDatabase();
    drop = server.drop;
    driver = await PostgresDriver.connect(server.url);
    await migrate(new Database(driver));
  });
  afterAll(async () => {
    await driver.close();
    await drop();
  });
  diesAnywhere(() => driver);
});
