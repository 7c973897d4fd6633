import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { MemoryRunLog } from '@toolloop/core/stores';
import { runLogContract } from '@toolloop/testing';

runLogContract('in memory', () => Promise.resolve({ store: new MemoryRunLog() }), {
  describe,
  it,
  beforeAll,
  afterAll,
});
