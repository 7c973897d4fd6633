import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { MemoryDirectiveStore } from '@toolloop/core/stores';
import { directiveStoreContract } from '@toolloop/testing';

directiveStoreContract('in memory', () => Promise.resolve({ store: new MemoryDirectiveStore() }), {
  describe,
  it,
  beforeAll,
  afterAll,
});
