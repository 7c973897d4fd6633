import { describe } from '@jest/globals';
import { inMemory } from './databases.js';
import { rehearsesInTransactions } from './rehearsals-suite.js';

// PGlite makes a database in seconds.
describe('a rehearsal, on PGlite', () => {
  rehearsesInTransactions(async () => ({ durable: await inMemory() }));
});
