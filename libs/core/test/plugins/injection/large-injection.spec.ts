import { describe, expect, it } from '@jest/globals';
import { ScriptedModel, call, calls, eventsOf, text } from '@toolloop/testing';
import { play } from '../../fixtures/played-run.js';
import type { Act } from '../../fixtures/probe.tools.js';
import { Customer } from '../../fixtures/shop.js';
import { ask, openShop } from '../../fixtures/shop.module.js';

async function playOnce(act: Act, injectedTools: number) {
  const model = new ScriptedModel([calls(call('probe__customers', { key: 'a' })), text('Done.')]);
  return play(
    await openShop(model),
    ask({
      context: { act },
      limits: { injectedTools, injectedInstances: 5_000 },
      surface: 'named',
    }),
  );
}

const customer = (index: number): Customer => new Customer(`c${index}`, 'x');
const idsOf = (count: number): string[] => Array.from({ length: count }, (_, index) => `c${index}`);

describe('a result of very many entities', () => {
  it('tells of each in an event of its own, in their order', async () => {
    const { events, result } = await playOnce(
      () => idsOf(2000).map((_, index) => customer(index)),
      10_000,
    );
    // The result is cut as well, so the tool that reads on comes behind them.
    expect(result.injectedTools).toHaveLength(4001);
    expect(eventsOf(events, 'tools-injected').map(({ instanceId }) => instanceId)).toEqual([
      ...idsOf(2000),
      undefined,
    ]);
  });

  it('counts an instance that stands in it twice once, towards the cap too', async () => {
    const { events, result } = await playOnce(() => [0, 1, 0, 1, 2].map(customer), 4);
    expect(result.injectedTools.map(({ id }) => id.split('_')[1])).toEqual([
      'c0',
      'c0',
      'c1',
      'c1',
    ]);
    expect(eventsOf(events, 'tools-injected').map(({ instanceId }) => instanceId)).toEqual([
      'c0',
      'c1',
    ]);
    expect(eventsOf(events, 'warning')).toMatchObject([
      { message: expect.stringMatching(/^The tools of Customer "c2" were not/) },
    ]);
  });
});
