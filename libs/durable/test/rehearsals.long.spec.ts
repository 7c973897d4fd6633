import { describe, jest } from '@jest/globals';
import { inMemory } from './databases.js';
import { rehearsesInTransactions } from './rehearsals-suite.js';

// PGlite makes a database in seconds.
jest.setTimeout(60_000);

describe('a rehearsal, on PGlite', () => {
  rehearsesInTransactions(async () => ({ durable: await inMemory() }));
});
