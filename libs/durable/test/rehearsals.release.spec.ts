import { describe } from '@jest/globals';
import { inMemory } from './databases.js';
import { performsWhatWasApproved } from './rehearsals-suite.js';

// PGlite makes a database in seconds.
describe('an approved rehearsal, on PGlite', () => {
  performsWhatWasApproved(async () => ({ durable: await inMemory() }));
});
