import { describe } from '@jest/globals';
import { takesFarValues } from './far-values-suite.js';
import { TYPE_ORM } from './orm-app.js';

describe('far values with TypeORM', () => {
  takesFarValues(TYPE_ORM);
});
