import { describe } from '@jest/globals';
import { MIKRO_ORM } from './orm-app.js';
import { followsRelations } from './relations-suite.js';

describe('relations with MikroORM', () => {
  followsRelations(MIKRO_ORM);
});
