import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { MemoryRunStore } from '@toolloop/durable';
import { runStoreContract } from '@toolloop/testing';

runStoreContract('in memory', () => Promise.resolve({ store: new MemoryRunStore() }), { describe, it, beforeAll, afterAll });
