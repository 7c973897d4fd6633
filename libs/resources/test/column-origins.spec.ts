import { describe } from '@jest/globals';
import { saysWhoseColumnsAre } from './column-origins-suite.js';
import { MIKRO_ORM } from './orm-app.js';

describe('invariant 15: the columns of MikroORM', () => {
  saysWhoseColumnsAre(MIKRO_ORM);
});
