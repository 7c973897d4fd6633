import { describe } from '@jest/globals';
import { Database } from '@toolloop/durable';
import { migrate } from '../src/database/migrations.js';
import { PgliteDriver } from '../src/database/pglite-driver.js';
import { inMemory } from './databases.js';
import { faulty } from './fixtures/faulty-driver.js';
import { StatementFaults } from './fixtures/statement-faults.js';
import { StruckApplication } from './fixtures/struck-runs.js';
import { struckStatementsSuite } from './struck-statements-suite.js';

describe('invariant 17, for every port by a driver between stores and PGlite:', () => {
  struckStatementsSuite(async () => {
    const { template } = await inMemory();
    const driver = await PgliteDriver.inMemory(template);
    const faults = new StatementFaults();
    const [database, observer] = [new Database(faulty(driver, faults)), new Database(driver)];
    await migrate(observer);
    const application = await StruckApplication.start(database, observer, faults);
    return { application, close: () => application.close() };
  });
});
