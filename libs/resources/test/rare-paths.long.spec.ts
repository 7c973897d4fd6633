import { describe } from '@jest/globals';
import { inMemory } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { standsRarePaths } from './rare-paths-suite.js';

describe('rare arguments on PGlite', () => {
  standsRarePaths(mikroOrm(inMemory), { canBeSlow: false });
});
