import { describe } from '@jest/globals';
import { TYPE_ORM } from './orm-app.js';
import { describesRelations, findByTypeOrm } from './own-relations-suite.js';

describe('the rows of an own action with TypeORM', () => {
  describesRelations(TYPE_ORM, findByTypeOrm);
});
