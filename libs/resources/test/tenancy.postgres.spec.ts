import { describePostgres } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { onServer } from './server.js';
import { keepsTenantsApart } from './tenancy-suite.js';

describePostgres('tenancy on PostgreSQL', () => {
  keepsTenantsApart(mikroOrm(onServer));
});
