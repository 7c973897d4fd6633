import { describe } from '@jest/globals';
import { TYPE_ORM, TYPE_ORM_ON_MARIADB } from './orm-app.js';
import { describeMariaDb } from './typeorm-storage.js';
import { boundsValues } from './value-bounds-suite.js';

describe('the values of columns with TypeORM', () => {
  boundsValues(TYPE_ORM);
});

describeMariaDb('the values of columns with TypeORM on MariaDB', () => {
  boundsValues(TYPE_ORM_ON_MARIADB);
});
