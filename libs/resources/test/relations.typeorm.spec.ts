import { describe } from '@jest/globals';
import { TYPE_ORM, TYPE_ORM_ON_MARIADB } from './orm-app.js';
import { followsRelations } from './relations-suite.js';
import { describeMariaDb } from './typeorm-storage.js';

describe('relations with TypeORM', () => {
  followsRelations(TYPE_ORM);
});

describeMariaDb('relations with TypeORM on MariaDB', () => {
  followsRelations(TYPE_ORM_ON_MARIADB);
});
