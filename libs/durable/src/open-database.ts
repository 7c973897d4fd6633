import { ConfigurationError } from '@toolloop/core';
import { Database } from './database/database.js';
import type { DatabaseDriver } from './database/database-driver.js';
import { PgliteDriver } from './database/pglite.driver.js';
import { PostgresDriver } from './database/postgres.driver.js';
import { unreachable } from './database/unreachable.js';
import { optionFindings, type DurableOptions } from './durable.options.js';
import { assertRights } from './granted-rights.js';
import { migrate } from './migrations/migrate.js';

/** Opens the database and brings its schema up to date. Throws `ConfigurationError` with what to do. */
export async function openDatabase(options: DurableOptions): Promise<Database> {
  const findings = optionFindings(options);
  if (findings.length > 0) throw new ConfigurationError(findings);
  const database = new Database(await driverFor(options));
  try {
    if ('url' in options) await assertRights(database);
    await migrate(database);
    return database;
  } catch (error) {
    await database.close();
    if (error instanceof ConfigurationError || !('url' in options)) throw error;
    throw unreachable(options.url, error);
  }
}

function driverFor(options: DurableOptions): Promise<DatabaseDriver> {
  if ('url' in options) return PostgresDriver.connect(options.url, options.connections);
  if ('dataDir' in options) return PgliteDriver.inFolder(options.dataDir);
  return PgliteDriver.inMemory(options.template);
}
