import { describe } from '@jest/globals';
import { createDatabaseFolder } from './databases.js';
import { losesNothing } from './killed-processes-suite.js';

describe('a process that is killed, on PGlite', () => {
  losesNothing(async () => {
    const { dataDir, drop } = await createDatabaseFolder();
    return { durable: { dataDir }, drop };
  });
});
