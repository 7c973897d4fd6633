import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { SqlRunStore } from '@toolloop/durable';
import { runStoreContract } from '@toolloop/testing';
import { inFolder } from './fixtures/queued-stores.js';

const open = () => inFolder((database, jobs) => new SqlRunStore(database, jobs));

runStoreContract('on PGlite', open, { describe, it, beforeAll: (body) => beforeAll(body, 30_000), afterAll });
