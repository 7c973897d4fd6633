import { expect, it } from '@jest/globals';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { describePostgres } from '../../durable/test/databases.js';
import { keepsTenantsApart } from './tenancy-suite.js';
import { onServer } from './server.js';
import { OrderTools, Shop } from './shop.js';
import { describeMariaDb, onMariaDb, onOneConnection, typeOrm } from './typeorm-storage.js';

/** Takes the escaping by backslashes away, as the configuration of a server may. */
@Injectable()
class WithoutBackslashes implements OnModuleInit {
  constructor(@Inject(DataSource) private readonly source: DataSource) {}

  async onModuleInit(): Promise<void> {
    await this.source.query(`set session sql_mode = concat(@@sql_mode, ',NO_BACKSLASH_ESCAPES')`);
  }
}

describePostgres('tenancy with TypeORM on PostgreSQL', () => {
  keepsTenantsApart(typeOrm(onServer));
});

describeMariaDb('tenancy with TypeORM on MariaDB', () => {
  keepsTenantsApart(onMariaDb, { hasRowSecurity: false });

  it('does not start with an entity that names no tenant, and says what to do about it', async () => {
    const starting = Shop.start({
      storing: onMariaDb,
      resources: [OrderTools],
      gateway: { tenancy: { property: 'company' } },
    });
    await expect(starting).rejects.toThrow(
      /Order: It has no property "company", and the database has no row level security[^]*shared: true[^]*Customer: It has no property "company"/,
    );
  });

  it('does not start where a backslash escapes nothing, since the texts of a model would be read as SQL', async () => {
    const starting = Shop.start({
      storing: onOneConnection,
      providers: [WithoutBackslashes],
      gateway: { tenancy: { property: 'company' } },
    });
    await expect(starting).rejects.toThrow(
      /NO_BACKSLASH_ESCAPES[^]*SET GLOBAL sql_mode = REPLACE[^]*Order: It has no property "company"/,
    );
  });
});
