import { describe } from '@jest/globals';
import { MIKRO_ORM, MIKRO_ORM_WITHOUT_ROW_SECURITY } from './orm-app.js';
import { followsRelations } from './relations-suite.js';

describe('relations with MikroORM', () => {
  followsRelations(MIKRO_ORM);
});

describe('relations with MikroORM without row security', () => {
  followsRelations(MIKRO_ORM_WITHOUT_ROW_SECURITY);
});
