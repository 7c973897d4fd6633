import { describe } from '@jest/globals';
import { followsSpecialRelations } from './depot-suite.js';
import { TYPE_ORM, TYPE_ORM_ON_MARIADB } from './orm-app.js';
import { describeMariaDb } from './typeorm-storage.js';

describe('special relations with TypeORM', () => {
  followsSpecialRelations(TYPE_ORM, { isByParts: true });
});

describeMariaDb('special relations with TypeORM on MariaDB', () => {
  followsSpecialRelations(TYPE_ORM_ON_MARIADB, { isByParts: true });
});
