import { describePostgres } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { standsRarePaths } from './rare-paths-suite.js';
import { onServer } from './server.js';
import { describeMariaDb, onMariaDb, typeOrm } from './typeorm-storage.js';

describePostgres('rare arguments with MikroORM on PostgreSQL', () => {
  standsRarePaths(mikroOrm(onServer));
});

describePostgres('rare arguments with TypeORM on PostgreSQL', () => {
  standsRarePaths(typeOrm(onServer));
});

describeMariaDb('rare arguments with TypeORM on MariaDB', () => {
  standsRarePaths(onMariaDb, { canBeSlow: false });
});
