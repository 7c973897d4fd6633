import { describe } from '@jest/globals';
import { saysWhoseColumnsAre } from './column-origins-suite.js';
import { TYPE_ORM } from './orm-app.js';

describe('invariant 15: the columns of TypeORM', () => {
  saysWhoseColumnsAre(TYPE_ORM);
});
