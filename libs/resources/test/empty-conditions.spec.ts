import { describe } from '@jest/globals';
import { refusesEmptyConditions } from './empty-conditions-suite.js';
import { MIKRO_ORM } from './orm-app.js';

describe('empty conditions with MikroORM', () => {
  refusesEmptyConditions(MIKRO_ORM);
});
