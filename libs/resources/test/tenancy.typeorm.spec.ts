import { expect, it } from '@jest/globals';
import { describePostgres } from '../../durable/test/databases.js';
import { keepsTenantsApart } from './tenancy-suite.js';
import { onServer } from './server.js';
import { OrderTools, Shop } from './shop.js';
import { describeMariaDb, onMariaDb, typeOrm } from './typeorm-storage.js';

describePostgres('tenancy with TypeORM on PostgreSQL', () => {
  keepsTenantsApart(typeOrm(onServer));
});

describeMariaDb('tenancy with TypeORM on MariaDB', () => {
  keepsTenantsApart(onMariaDb, { hasRowSecurity: false });

  it('does not start with an entity that names no tenant, and says what to do about it', async () => {
    const starting = Shop.start({ storing: onMariaDb, resources: [OrderTools], gateway: { tenancy: { property: 'company' } } });
    await expect(starting).rejects.toThrow(
      /Order: It has no property "company", and the database has no row level security[^]*shared: true[^]*Customer: It has no property "company"/,
    );
  });
});
