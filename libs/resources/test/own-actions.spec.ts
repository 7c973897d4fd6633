import { describe } from '@jest/globals';
import { inMemory } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { byMikroOrm, describesWhatIsReturned } from './own-actions-suite.js';

describe('the result of an own action with MikroORM', () => {
  describesWhatIsReturned(mikroOrm(inMemory), byMikroOrm);
});
