import { describe } from '@jest/globals';
import { inMemory } from '../../durable/test/databases.js';
import { keepsClassGuards } from './class-guards-suite.js';
import { mikroOrm } from './mikro-orm-storage.js';

describe('resources with MikroORM', () => {
  keepsClassGuards(mikroOrm(inMemory));
});
