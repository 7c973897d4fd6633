import { describe } from '@jest/globals';
import { inMemory } from '../../durable/test/databases.js';
import { writesRows } from './write-suite.js';

describe('writes on PGlite', () => {
  writesRows(inMemory);
});
