import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { SqlRunLog } from '@toolloop/durable';
import { runLogContract } from '@toolloop/testing';
import { inFolder } from './fixtures/queued-stores.js';

const open = () => inFolder((database, jobs) => new SqlRunLog(database, jobs));

runLogContract('on PGlite', open, {
  describe,
  it,
  beforeAll: (body) => beforeAll(body, 30_000),
  afterAll,
});
