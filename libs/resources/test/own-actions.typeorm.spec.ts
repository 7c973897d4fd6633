import { describe } from '@jest/globals';
import { inMemory } from '../../durable/test/databases.js';
import { typeOrm } from './typeorm-storage.js';
import { byTypeOrm, describesWhatIsReturned } from './own-actions-suite.js';

describe('the result of an own action with TypeORM', () => {
  describesWhatIsReturned(typeOrm(inMemory), byTypeOrm);
});
