import { describePostgres } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { onServer } from './server.js';
import { readsRows } from './read-suite.js';

describePostgres('reads on PostgreSQL', () => {
  readsRows(mikroOrm(onServer));
});
