import { describePostgres } from '../../durable/test/databases.js';
import { onServer } from './server.js';
import { writesRows } from './write-suite.js';

describePostgres('writes on PostgreSQL', () => {
  writesRows(onServer);
});
