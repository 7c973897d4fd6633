import { describe, expect, it } from '@jest/globals';
import { type Limits, LlmTool, ToolProvider } from '@toolloop/core';
import { phases } from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedAnswer } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { play, type PlayedRun } from '../../fixtures/played-run.js';
import type { Act } from '../../fixtures/probe.tools.js';
import { Customer } from '../../fixtures/shop.js';
import { ask, openShop } from '../../fixtures/shop.module.js';

async function playSteps(
  steps: readonly ScriptedAnswer[],
  act: Act,
  limits: Partial<Limits> = {},
): Promise<PlayedRun> {
  const model = new ScriptedModel([...steps, text('Done.')]);
  const played = await play(
    await openShop(model),
    ask({ context: { act }, limits, surface: 'named' }),
  );
  model.assertComplete();
  return played;
}

const list = (key: string) => call('probe__customers', { key });
/** `3` gives three customers, `a-3` other three. */
const many: Act = (key) => {
  const [prefix, count] = key.includes('-') ? key.split('-') : ['c', key];
  return Array.from(
    { length: Number(count) },
    (_, index) => new Customer(`${prefix}${index}`, 'x'),
  );
};

const to = <Phase extends string>(key: string, phase: Phase) => [
  { when: ({ args }: { readonly args?: object }) => Reflect.get(args ?? {}, 'key') === key, phase },
];

describe('the cap of injected tools', () => {
  it('is 24, and one warning tells what was left out', async () => {
    const { events, result } = await playSteps([calls(list('500'))], many);
    expect(result.injectedTools).toHaveLength(24);
    expect(eventsOf(events, 'warning')).toMatchObject([
      {
        code: 'injection_cap',
        message: expect.stringMatching(
          /^The tools of Customer "c12" and of 487 more were not added: a run holds at most 24/,
        ),
      },
    ]);
  });

  it('adds whole instances only', async () => {
    const { events, result } = await playSteps([calls(list('3'))], many, { injectedTools: 5 });
    expect(result.injectedTools.map(({ id }) => id)).toEqual([
      'customer_c0_getAverageSpend',
      'customer_c0_getRecentOrders',
      'customer_c1_getAverageSpend',
      'customer_c1_getRecentOrders',
    ]);
    expect(eventsOf(events, 'warning')).toMatchObject([
      { message: expect.stringMatching(/^The tools of Customer "c2" were not added/) },
    ]);
  });

  it('counts over the whole run, and over all results of a step', async () => {
    const { events, result } = await playSteps(
      [calls(list('a-1'), list('b-1')), calls(list('d-1'))],
      many,
      { injectedTools: 4 },
    );
    expect(result.injectedTools).toHaveLength(4);
    expect(eventsOf(events, 'warning')).toMatchObject([{ step: 2, code: 'injection_cap' }]);
  });

  it('does not keep what is there from being refreshed', async () => {
    const { events } = await playSteps([calls(list('2')), calls(list('2 '))], many, {
      injectedTools: 4,
    });
    expect(eventsOf(events, 'warning')).toEqual([]);
  });

  it('counts what was found again', async () => {
    const { events, result } = await playSteps(
      [calls(list('1')), calls(list('1 ')), calls(list('a-1'))],
      many,
      { injectedTools: 2 },
    );
    expect(result.injectedTools).toHaveLength(2);
    expect(eventsOf(events, 'warning')).toMatchObject([{ step: 3, code: 'injection_cap' }]);
  });

  it('counts a tool once that went and came again, however often', async () => {
    const injection = [
      phases({
        start: 'one',
        states: {
          one: { tools: ['probe__write'], to: to('two', 'two') },
          two: { tools: ['crm__openCart'], to: to('one', 'one') },
        },
      }),
    ];
    const swings = Array.from({ length: 4 }, () =>
      ['two', 'one'].map((key) => calls(call('probe__read', { key }))),
    ).flat();
    const model = new ScriptedModel([...swings, text('Done.')]);
    const limits = { injectedTools: 2, identicalCalls: 99 };
    const { events, result } = await play(
      await openShop(model),
      ask({ injection, limits, context: { act: () => 'x' } }),
    );
    expect(eventsOf(events, 'warning')).toEqual([]);
    expect(model.requests.at(-1)?.toolIds).toContain('probe__write');
    expect(result.injectedTools.map(({ id }) => id)).toEqual(['crm__openCart', 'probe__write']);
  });

  it.each([0, 1])('adds, with %i, nothing to an entity with two tools', async (injectedTools) => {
    const { events, result } = await playSteps([calls(list('1'))], many, { injectedTools });
    expect(result.injectedTools).toEqual([]);
    expect(eventsOf(events, 'warning')).toMatchObject([{ code: 'injection_cap' }]);
  });

  it('can be raised', async () => {
    const { result } = await playSteps([calls(list('100'))], many, { injectedTools: 1000 });
    expect(result.injectedTools).toHaveLength(200);
  });
});

const orders = (id: string) => call(`customer_${id}_getRecentOrders`);
const customerOf = (id: string) => call(`order_${id}_getCustomer`);
const find = call('probe__customer', { key: 'a' });
const one: Act = (key) => new Customer(key, key);

describe('the depth of injection', () => {
  it('gives, with 1, tools to entities that a service returned and to none that an entity returned, with a warning', async () => {
    const { events, result } = await playSteps([calls(find), calls(orders('a'))], one, {
      injectionDepth: 1,
    });
    expect(result.injectedTools).toHaveLength(2);
    expect(eventsOf(events, 'warning')).toMatchObject([
      { step: 2, code: 'injection_depth', message: expect.stringContaining('the limit is 1') },
    ]);
  });

  it('injects nothing with 0', async () => {
    const { events, result } = await playSteps([calls(find)], one, { injectionDepth: 0 });
    expect(result.injectedTools).toEqual([]);
    expect(eventsOf(events, 'warning')).toMatchObject([{ code: 'injection_depth' }]);
  });

  it('warns of nothing where nothing was found', async () => {
    const { events } = await playSteps(
      [calls(find), calls(call('customer_a_getAverageSpend'))],
      one,
      { injectionDepth: 1 },
    );
    expect(eventsOf(events, 'warning')).toEqual([]);
  });

  it('refreshes what is there already, however deep it was found again', async () => {
    const steps = [calls(find), calls(orders('a')), calls(customerOf('a-1'))];
    const { events } = await playSteps(steps, one, { injectionDepth: 2 });
    expect(eventsOf(events, 'tools-injected').map(({ instanceId }) => instanceId)).toEqual([
      'a',
      'a-1',
      'a-2',
    ]);
    expect(eventsOf(events, 'warning')).toEqual([]);
  });
});

@ToolProvider({ prefix: 'stranger' })
class Stranger {
  @Expose() readonly id = 's1';
  @LlmTool({ description: 'Waves.', effect: 'read_only', reveal: 'all' })
  wave(): string {
    return 'hello';
  }
}

describe('an instance of a provider that is not registered', () => {
  const show = calls(call('probe__show', { key: 'a' }));

  it('injects nothing, and one warning says what to do', async () => {
    const { events, result } = await playSteps([show], () => [new Stranger(), new Stranger()]);
    expect(result.injectedTools).toEqual([]);
    expect(eventsOf(events, 'warning')).toMatchObject([
      {
        code: 'unknown_provider',
        message: expect.stringContaining('ToolLoopModule.forFeature({ entities: [Stranger] })'),
      },
    ]);
  });

  it('keeps nothing from those that are known', async () => {
    const { result } = await playSteps([show], () => [new Stranger(), new Customer('a', 'a')]);
    expect(result.injectedTools).toHaveLength(2);
  });
});
