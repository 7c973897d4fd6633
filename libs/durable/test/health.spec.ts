import { describe, expect, it } from '@jest/globals';
import { DurableHealth } from '@toolloop/durable';
import { openInMemory } from './databases.js';

describe('the health of a process', () => {
  it('is good while the database answers, and bad at once where it was closed, whatever it has answered before', async () => {
    const database = await openInMemory();
    const health = new DurableHealth(database);
    expect(await health.readiness()).toEqual({
      isReady: true,
      database: 'up',
      policy: 'readable',
      isLeaving: false,
    });
    expect(database.silentMs).toBeLessThan(60_000);
    await database.query('select 1');
    expect(database.silentMs).toBeLessThan(5_000);
    await expect(database.query('select nothing')).rejects.toThrow('nothing');
    await database.close();
    expect(database.silentMs).toBe(Number.POSITIVE_INFINITY);
    expect(await health.readiness()).toEqual({
      isReady: false,
      database: 'down',
      policy: 'readable',
      isLeaving: false,
    });
  });

  it('is known without a question where the database has answered anybody within a second, and is asked for after that', async () => {
    let [asked, silentMs] = [0, 0];
    const database = {
      query: () => Promise.reject(new Error(`asked ${(asked += 1)} times`)),
      get silentMs() {
        return silentMs;
      },
    };
    const health = new DurableHealth(database);
    expect([await health.readiness(), asked]).toEqual([
      { isReady: true, database: 'up', policy: 'readable', isLeaving: false },
      0,
    ]);
    silentMs = 1_000;
    expect([await health.readiness(), asked]).toEqual([
      { isReady: false, database: 'down', policy: 'readable', isLeaving: false },
      1,
    ]);
  });

  it('is not good where the database never answers', async () => {
    const health = new DurableHealth({ query: () => new Promise(() => undefined) });
    expect(await health.readiness()).toEqual({
      isReady: false,
      database: 'down',
      policy: 'readable',
      isLeaving: false,
    });
  });

  it('is not good while the policy in force cannot be read', async () => {
    const health = new DurableHealth({ query: () => Promise.resolve([]) }, { isReliable: false });
    expect(await health.readiness()).toEqual({
      isReady: false,
      database: 'up',
      policy: 'unreadable',
      isLeaving: false,
    });
  });

  it('is to leave it alone from the moment it shuts down', async () => {
    const health = new DurableHealth({ query: () => Promise.resolve([]) });
    health.onModuleDestroy();
    expect(await health.readiness()).toEqual({
      isReady: false,
      database: 'up',
      policy: 'readable',
      isLeaving: true,
    });
  });
});
