import { describe } from '@jest/globals';
import { TYPE_ORM } from './orm-app.js';
import { keepsItsColumns } from './set-columns-suite.js';

describe('columns of their own, with TypeORM,', () => {
  keepsItsColumns(TYPE_ORM);
});
