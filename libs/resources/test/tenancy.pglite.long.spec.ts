import { describe, expect, it } from '@jest/globals';
import { inMemory } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { Shop } from './shop.js';
import { keepsTenantsApart } from './tenancy-suite.js';

describe('tenancy on PGlite', () => {
  keepsTenantsApart(mikroOrm(inMemory));

  it('does not start without a role, since its only user is a superuser', async () => {
    await expect(Shop.start({ storing: mikroOrm(inMemory), gateway: {} })).rejects.toThrow(
      'has no role',
    );
  });
});
