import { describe } from '@jest/globals';
import { inMemory } from '../../durable/test/databases.js';
import { readsRows } from './read-suite.js';

describe('reads on PGlite', () => {
  readsRows(inMemory);
});
