import { afterAll, beforeAll, describe } from '@jest/globals';
import { Database, type DatabaseDriver } from '@toolloop/durable';
import { migrate } from '../src/database/migrations.js';
import { PgliteDriver } from '../src/database/pglite-driver.js';
import { diesAnywhere } from './crash-points-suite.js';
import { inMemory } from './databases.js';

describe('a process that dies at a commit, on PGlite', () => {
  let driver: DatabaseDriver;
  beforeAll(async () => {
    const { template } = await inMemory();
    driver = await PgliteDriver.inMemory(template);
    await migrate(new Database(driver));
  });
  afterAll(() => driver.close());
  diesAnywhere(() => driver);
});
