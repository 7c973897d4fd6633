import { describePostgres } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { onServer } from './server.js';
import { findsWhatArraysFind } from './random-filters-suite.js';
import { describeMariaDb, onMariaDb, typeOrm } from './typeorm-storage.js';

describePostgres('random filters on PostgreSQL', () => {
  findsWhatArraysFind(mikroOrm(onServer));
});

describePostgres('random filters with TypeORM on PostgreSQL', () => {
  findsWhatArraysFind(typeOrm(onServer));
});

describeMariaDb('random filters with TypeORM on MariaDB', () => {
  findsWhatArraysFind(onMariaDb);
});
