import { describe, expect, it } from '@jest/globals';
import { DurableHealth } from '@toolloop/durable';
import { openInMemory } from './databases.js';

describe('the health of a process', () => {
  it('is good while the database answers, and not once it is closed', async () => {
    const database = await openInMemory();
    const health = new DurableHealth(database);
    expect(await health.readiness()).toEqual({ isReady: true, database: 'up', isLeaving: false });
    await database.close();
    expect(await health.readiness()).toEqual({ isReady: false, database: 'down', isLeaving: false });
  }, 30_000);

  it('is not good where the database never answers', async () => {
    const health = new DurableHealth({ query: () => new Promise(() => undefined) });
    expect(await health.readiness()).toEqual({ isReady: false, database: 'down', isLeaving: false });
  });

  it('is to leave it alone from the moment it shuts down', async () => {
    const health = new DurableHealth({ query: () => Promise.resolve([]) });
    health.onModuleDestroy();
    expect(await health.readiness()).toEqual({ isReady: false, database: 'up', isLeaving: true });
  });
});
