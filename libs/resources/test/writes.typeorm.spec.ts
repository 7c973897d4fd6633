import { describePostgres } from '../../durable/test/databases.js';
import { writesRows } from './write-suite.js';
import { onServer } from './server.js';
import { describeMariaDb, onMariaDb, typeOrm } from './typeorm-storage.js';

describePostgres('writes with TypeORM on PostgreSQL', () => {
  writesRows(typeOrm(onServer));
});

describeMariaDb('writes with TypeORM on MariaDB', () => {
  writesRows(onMariaDb, { joinsCalls: false });
});
