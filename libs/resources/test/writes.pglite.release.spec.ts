import { describe } from '@jest/globals';
import { inMemory } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { writesRows } from './write-suite.js';

describe('writes on PGlite', () => {
  writesRows(mikroOrm(inMemory));
});
