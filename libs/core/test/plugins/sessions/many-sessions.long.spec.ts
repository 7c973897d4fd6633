import { describe, expect, it } from '@jest/globals';
import { ToolLoopService } from '@toolloop/core';
import { ScriptedModel } from '@toolloop/testing';
import { setTimeout as wait } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { openModule } from '../../fixtures/shop.module.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/**
 * Sessions until what the engine compiles and learns of the code is there: that stays, whatever
 * becomes of sessions.
 */
const WARM_UP = 400;

/** The heap once nothing more is let go of. */
async function heapAfterCollection(): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 6; round += 1) {
    await wait(10);
    collectGarbage();
    least = Math.min(least, process.memoryUsage().heapUsed);
  }
  return least;
}

function timers(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
}

/**
 * The timers once there are no more than that: one of a moment, also of a file that this process
 * has tested before, is gone soon, and one that was left stays.
 */
async function timersDownTo(most: number): Promise<number> {
  for (let round = 0; round < 50 && timers() > most; round += 1) await wait(100);
  return timers();
}

async function shop(idleMs?: number) {
  const module = await openModule(new ScriptedModel([]), {
    sessions: { ...(idleMs !== undefined && { idleMs }), perTenant: 2_000, perActor: 2_000 },
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const { signal } = new AbortController();
  let listeners = 0;
  const [add, remove] = [
    signal.addEventListener.bind(signal),
    signal.removeEventListener.bind(signal),
  ];
  signal.addEventListener = (...given: Parameters<typeof add>) => ((listeners += 1), add(...given));
  signal.removeEventListener = (...given: Parameters<typeof remove>) => (
    (listeners -= 1),
    remove(...given)
  );
  /** One session of each of these users, which is used as a client would. */
  const use = async (count: number, isClosed: boolean): Promise<void> => {
    for (let index = 0; index < count; index += 1) {
      const session = await loop.session({
        actor: { id: `user ${index % 50}` },
        tenant: `tenant ${index % 5}`,
        scope: 'desk',
      });
      session.changes$.subscribe();
      await session.call('crm__searchCustomers', { name: 'ann' }, { signal });
      await session.call('customer_c-1_getAverageSpend');
      await session.call('crm__nothing');
      await session.list();
      if (isClosed) await session.close();
    }
  };
  return { module, loop, use, left: () => listeners };
}

describe('a thousand sessions', () => {
  it('leave the heap within 2 % of that after the first hundred once they are closed, and no timer and no listener', async () => {
    const { module, use, left } = await shop();
    const before = timers();
    await use(WARM_UP, true);
    await use(100, true);
    const first = await heapAfterCollection();
    await use(900, true);
    const last = await heapAfterCollection();
    expect(last / first).toBeLessThan(1.02);
    expect(left()).toBe(0);
    expect(await timersDownTo(before)).toBeLessThanOrEqual(before);
    await module.close();
  });

  it('leave no more where they are dropped and idle, and are watched by one timer', async () => {
    const { module, use, left } = await shop(300);
    const before = timers();
    await use(WARM_UP, false);
    await wait(700);
    await use(100, false);
    expect(timers()).toBeLessThanOrEqual(before + 1);
    await wait(700);
    const first = await heapAfterCollection();
    await use(900, false);
    await wait(700);
    const last = await heapAfterCollection();
    expect(last / first).toBeLessThan(1.02);
    expect(left()).toBe(0);
    expect(await timersDownTo(before)).toBeLessThanOrEqual(before);
    await module.close();
  });
});
