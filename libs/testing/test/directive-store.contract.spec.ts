import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { MemoryDirectiveStore } from '@toolloop/core';
import { directiveStoreContract } from '@toolloop/testing';

directiveStoreContract('in memory', () => Promise.resolve({ store: new MemoryDirectiveStore() }), { describe, it, beforeAll, afterAll });
