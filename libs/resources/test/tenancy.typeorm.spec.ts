import { describePostgres } from '../../durable/test/databases.js';
import { keepsTenantsApart } from './tenancy-suite.js';
import { onServer } from './server.js';
import { describeMariaDb, onMariaDb, typeOrm } from './typeorm-storage.js';

describePostgres('tenancy with TypeORM on PostgreSQL', () => {
  keepsTenantsApart(typeOrm(onServer));
});

describeMariaDb('tenancy with TypeORM on MariaDB', () => {
  keepsTenantsApart(onMariaDb, { hasRowSecurity: false });
});
