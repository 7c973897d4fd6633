import { describe } from '@jest/globals';
import { MIKRO_ORM } from './orm-app.js';
import { describesRelations, findByMikroOrm } from './own-relations-suite.js';

describe('the rows of an own action with MikroORM', () => {
  describesRelations(MIKRO_ORM, findByMikroOrm);
});
