import { describe } from '@jest/globals';
import { followsSpecialRelations } from './depot-suite.js';
import { MIKRO_ORM, MIKRO_ORM_WITHOUT_ROW_SECURITY } from './orm-app.js';

describe('special relations with MikroORM', () => {
  followsSpecialRelations(MIKRO_ORM, { isByParts: false });
});

describe('special relations with MikroORM without row security', () => {
  followsSpecialRelations(MIKRO_ORM_WITHOUT_ROW_SECURITY, { isByParts: false });
});
