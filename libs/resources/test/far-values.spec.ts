import { describe } from '@jest/globals';
import { takesFarValues } from './far-values-suite.js';
import { MIKRO_ORM } from './orm-app.js';

describe('far values with MikroORM', () => {
  takesFarValues(MIKRO_ORM);
});
