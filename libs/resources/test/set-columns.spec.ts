import { describe } from '@jest/globals';
import { MIKRO_ORM } from './orm-app.js';
import { keepsItsColumns } from './set-columns-suite.js';

describe('columns of their own, with MikroORM,', () => {
  keepsItsColumns(MIKRO_ORM);
});
