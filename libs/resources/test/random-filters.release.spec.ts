import { describe } from '@jest/globals';
import { inMemory } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { findsWhatArraysFind } from './random-filters-suite.js';

describe('random filters on PGlite', () => {
  findsWhatArraysFind(mikroOrm(inMemory));
});
