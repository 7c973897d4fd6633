import { describe } from '@jest/globals';
import { inMemory } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { readsRows } from './read-suite.js';

describe('reads on PGlite', () => {
  readsRows(mikroOrm(inMemory));
});
