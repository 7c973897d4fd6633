import { describe } from '@jest/globals';
import { refusesEmptyConditions } from './empty-conditions-suite.js';
import { TYPE_ORM } from './orm-app.js';

describe('empty conditions with TypeORM', () => {
  refusesEmptyConditions(TYPE_ORM);
});
