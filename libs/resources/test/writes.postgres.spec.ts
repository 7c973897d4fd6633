import { describePostgres } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { onServer } from './server.js';
import { writesRows } from './write-suite.js';

describePostgres('writes on PostgreSQL', () => {
  writesRows(mikroOrm(onServer));
});
