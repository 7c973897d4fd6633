import { describePostgres } from '../../durable/test/databases.js';
import { readsRows } from './read-suite.js';
import { onServer } from './server.js';
import { describeMariaDb, onMariaDb, typeOrm } from './typeorm-storage.js';

describePostgres('reads with TypeORM on PostgreSQL', () => {
  readsRows(typeOrm(onServer));
});

describeMariaDb('reads with TypeORM on MariaDB', () => {
  readsRows(onMariaDb);
});
