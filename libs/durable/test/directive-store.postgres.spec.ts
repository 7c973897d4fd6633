import { afterAll, beforeAll, it } from '@jest/globals';
import { SqlDirectiveStore } from '@toolloop/durable';
import { directiveStoreContract } from '@toolloop/testing';
import { describePostgres } from './databases.js';
import { onServer } from './fixtures/queued-stores.js';

const open = () => onServer((database, jobs) => new SqlDirectiveStore(database, jobs));

directiveStoreContract('on PostgreSQL', open, {
  describe: describePostgres,
  it,
  beforeAll,
  afterAll,
});
