import { describe } from '@jest/globals';
import { describePostgres, inMemory } from '../../durable/test/databases.js';
import { onServer } from './server.js';
import { findsWhatArraysFind } from './random-filters-suite.js';

describe('random filters on PGlite', () => {
  findsWhatArraysFind(inMemory);
});

describePostgres('random filters on PostgreSQL', () => {
  findsWhatArraysFind(onServer);
});
