import { describe } from '@jest/globals';
import { MIKRO_ORM } from './orm-app.js';
import { boundsValues } from './value-bounds-suite.js';

describe('the values of columns with MikroORM', () => {
  boundsValues(MIKRO_ORM);
});
