import { describe, expect, it } from '@jest/globals';
import { inMemory } from '../../durable/test/databases.js';
import { Shop } from './shop.js';
import { keepsTenantsApart } from './tenancy-suite.js';

describe('tenancy on PGlite', () => {
  keepsTenantsApart(inMemory);

  it('does not start without a role, since its only user is a superuser', async () => {
    await expect(Shop.start({ durable: await inMemory(), gateway: {} })).rejects.toThrow('It has no role');
  });
});
