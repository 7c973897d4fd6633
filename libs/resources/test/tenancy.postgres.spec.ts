import { describePostgres } from '../../durable/test/databases.js';
import { onServer } from './server.js';
import { keepsTenantsApart } from './tenancy-suite.js';

describePostgres('tenancy on PostgreSQL', () => {
  keepsTenantsApart(onServer);
});
