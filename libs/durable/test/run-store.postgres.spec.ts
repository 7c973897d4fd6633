import { afterAll, beforeAll, it } from '@jest/globals';
import { SqlRunStore } from '@toolloop/durable';
import { runStoreContract } from '@toolloop/testing';
import { describePostgres } from './databases.js';
import { onServer } from './fixtures/queued-stores.js';

const open = () => onServer((database, jobs) => new SqlRunStore(database, jobs));

runStoreContract('on PostgreSQL', open, { describe: describePostgres, it, beforeAll, afterAll });
