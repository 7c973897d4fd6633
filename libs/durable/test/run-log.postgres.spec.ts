import { afterAll, beforeAll, it } from '@jest/globals';
import { SqlRunLog } from '@toolloop/durable';
import { runLogContract } from '@toolloop/testing';
import { describePostgres } from './databases.js';
import { onServer } from './fixtures/queued-stores.js';

const open = () => onServer((database, jobs) => new SqlRunLog(database, jobs));

runLogContract('on PostgreSQL', open, { describe: describePostgres, it, beforeAll, afterAll });
