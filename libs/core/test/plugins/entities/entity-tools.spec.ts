import { describe, expect, it } from '@jest/globals';
import { LlmTool, type LoopRequest, ToolProvider } from '@toolloop/core';
import {
  ScriptedModel,
  call,
  calls,
  eventsOf,
  expectDenied,
  text,
  type ScriptedAnswer,
} from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { play, resultsIn, type PlayedRun } from '../../fixtures/played-run.js';
import type { Act } from '../../fixtures/probe.tools.js';
import { Cart, Customer } from '../../fixtures/shop.js';
import { ask, openShop, type ShopOptions } from '../../fixtures/shop.module.js';

interface Played extends PlayedRun {
  readonly model: ScriptedModel;
}

async function playSteps(
  steps: readonly ScriptedAnswer[],
  act: Act,
  more: { shop?: ShopOptions; request?: Partial<LoopRequest> } = {},
): Promise<Played> {
  const model = new ScriptedModel([...steps, text('Done.')]);
  const loop = await openShop(model, more.shop);
  const played = await play(loop, ask({ context: { act }, ...more.request }));
  model.assertComplete();
  return { ...played, model };
}

const find = (key: string) => call('probe__customer', { key });
const named: Act = (key) => new Customer(key, key);

const namedButB: Act = (key) => {
  if (key === 'b') throw new Error('no');
  return new Customer(key, key);
};

describe('invariant 8: injection looks at every result of a step, in call order', () => {
  it('looks at them whatever order the calls end in', async () => {
    const delays: Record<string, number> = { a: 20, b: 1, c: 10 };
    const act: Act = async (key) => {
      await new Promise((resolve) => setTimeout(resolve, delays[key]));
      return new Customer(key, key);
    };
    const { events } = await playSteps([calls(find('a'), find('b'), find('c'))], act);
    expect(eventsOf(events, 'tools-injected').map(({ instanceId }) => instanceId)).toEqual([
      'a',
      'b',
      'c',
    ]);
  });

  it('reads and writes alike', async () => {
    const script = [calls(call('crm__openCart', { id: 'k1' }), find('a'))];
    const { events } = await playSteps(script, named);
    expect(eventsOf(events, 'tools-injected').map(({ instanceId }) => instanceId)).toEqual([
      'k1',
      'a',
    ]);
  });

  it('is not put off by a call that fails between two others', async () => {
    const { events } = await playSteps([calls(find('a'), find('b'), find('c'))], namedButB);
    expect(eventsOf(events, 'tools-injected').map(({ instanceId }) => instanceId)).toEqual([
      'a',
      'c',
    ]);
  });

  it('offers the tools in the next step, behind those that were there', async () => {
    const { model } = await playSteps([calls(find('a'))], named);
    const [before = [], after = []] = model.requests.map(({ toolIds }) => toolIds);
    expect(after).toEqual([...before, 'customer_a_getAverageSpend', 'customer_a_getRecentOrders']);
  });

  it('runs a tool on the very instance that was returned', async () => {
    const { result } = await playSteps(
      [calls(find('ann')), calls(call('customer_ann_getAverageSpend'))],
      named,
    );
    expect(resultsIn(result.messages).at(-1)).toBe('acme:ann:ann');
    expect(result.toolCalls.at(-1)).toMatchObject({
      id: 'customer_ann_getAverageSpend',
      declaredId: 'customer_*_getAverageSpend',
      entity: { provider: 'Customer', instanceId: 'ann', depth: 1 },
    });
  });

  it('adds a tool only to the run in which it was injected', async () => {
    const model = new ScriptedModel([
      calls(find('a')),
      text('Done.'),
      calls(call('customer_a_getAverageSpend')),
      text('Done.'),
    ]);
    const loop = await openShop(model);
    await play(loop, ask({ context: { act: named } }));
    const { result } = await play(loop, ask());
    expect(result.toolCalls).toMatchObject([{ status: 'failed', error: { code: 'unknown_tool' } }]);
  });
});

describe('invariant 8: injected tools obey', () => {
  const allow = ['probe__*', 'crm__*'];

  it('the policy of the application, which need not know that the entity exists', async () => {
    const { events, model } = await playSteps([calls(find('a'))], named, {
      shop: { policy: { allow } },
    });
    expect(eventsOf(events, 'tools-injected')).toEqual([]);
    expect(model.requests[1]?.toolIds.some((id) => id.startsWith('customer'))).toBe(false);
  });

  it('the policy of the run, method by method', async () => {
    const policy = { allow: ['*'], deny: ['customer_*_getRecentOrders'] };
    const { events } = await playSteps([calls(find('a'))], named, { request: { policy } });
    expect(eventsOf(events, 'tools-injected')).toMatchObject([
      { tools: ['customer_a_getAverageSpend'] },
    ]);
  });

  it('the policy of the run, effect by effect', async () => {
    const policy = { allow: ['*'], effects: ['read_only' as const] };
    const { events } = await playSteps(
      [calls(call('probe__cart', { key: 'k' }))],
      (key) => new Cart(key),
      { request: { policy } },
    );
    expect(eventsOf(events, 'tools-injected')).toMatchObject([{ tools: ['cart_k_list'] }]);
  });

  it('leave a tool in place whose policy requires an approval without an approver, and its call is denied', async () => {
    const policy = { allow: ['*'], requireApproval: [{ effects: ['state_change' as const] }] };
    const script = [
      calls(call('probe__cart', { key: 'k' })),
      calls(call('cart_k_add', { item: 'tea' })),
    ];
    const { events, result } = await playSteps(script, (key) => new Cart(key), {
      request: { policy, approvals: 'deny' },
    });
    expectDenied(events, 'cart_k_add', 'approval_denied');
    expect(result.injectedTools.map(({ id }) => id)).toContain('cart_k_add');
  });

  it.each<[string, NonNullable<LoopRequest['exclude']>, string[]]>([
    ['a declared id', ['customer_*_getRecentOrders'], ['customer_a_getAverageSpend']],
    ['a glob', ['customer_*'], []],
    ['the class of the entity', [Customer], []],
    [
      'a predicate',
      [({ id }) => id === 'customer_a_getAverageSpend'],
      ['customer_a_getRecentOrders'],
    ],
  ])('are left out by an exclusion by %s', async (_, exclude, expected) => {
    const { result } = await playSteps([calls(find('a'))], named, { request: { exclude } });
    expect(result.injectedTools.map(({ id }) => id)).toEqual(expected);
  });

  it('no selection: `tools` chooses from the catalog alone', async () => {
    const { result, model } = await playSteps([calls(find('a'))], named, {
      request: { tools: ['probe__customer'] },
    });
    expect(model.requests[0]?.toolIds).toEqual(['probe__customer']);
    expect(result.injectedTools).toHaveLength(2);
  });

  it('`injection: false`, which injects nothing', async () => {
    const { result } = await playSteps([calls(find('a'))], named, {
      request: { injection: false },
    });
    expect(result.injectedTools).toEqual([]);
  });
});

@ToolProvider({ prefix: 'door', instanceIdProperty: 'identify' })
class Door {
  @Expose() readonly label: string;
  constructor(
    label: string,
    readonly id?: unknown,
  ) {
    this.label = label;
  }

  identify(): string {
    if (this.label === 'broken') throw new Error('no');
    return `door-${this.label}`;
  }

  @LlmTool({
    description: 'Opens.',
    effect: 'state_change',
    reveal: 'all',
    when: ({ tenant }) => tenant === 'acme',
  })
  open(): string {
    return `opened ${this.label}`;
  }

  @LlmTool({ description: 'Looks.', effect: 'read_only', reveal: 'all' })
  look(): string {
    return `saw ${this.label}`;
  }
}

class DoorBell extends Door {
  override look(): string {
    return `heard ${this.label}`;
  }
}

describe('an entity tool', () => {
  const doors = { shop: { entities: [Door] } };
  it('is named by a method that gives the id', async () => {
    const { result } = await playDoor(new Door('a'));
    expect(result.injectedTools.map(({ id }) => id)).toContain('door_door-a_look');
  });

  it('is not listed where its `when` says no', async () => {
    const { result } = await playDoor(new Door('a'), { tenant: 'globex' });
    expect(result.injectedTools.map(({ id }) => id)).toEqual(['door_door-a_look']);
  });

  it("runs, for a subclass, the subclass's own method under the known name", async () => {
    const { result } = await playDoor(new DoorBell('a'), {}, calls(call('door_door-a_look')));
    expect(resultsIn(result.messages).at(-1)).toBe('heard a');
  });

  it('is not added for an instance whose id cannot be read, which keeps nothing from the others', async () => {
    const { events, result } = await playDoor([new Door('broken'), new Door('b')]);
    expect(eventsOf(events, 'warning')).toMatchObject([
      { code: 'injection_failed', message: expect.stringContaining('"identify"') },
    ]);
    expect(result.injectedTools.map(({ id }) => id)).toContain('door_door-b_look');
  });

  async function playDoor(
    item: object,
    request: Partial<LoopRequest> = {},
    ...steps: ScriptedAnswer[]
  ): Promise<Played> {
    return playSteps([calls(call('probe__show', { key: 'a' })), ...steps], () => item, {
      ...doors,
      request,
    });
  }
});

const twice: Act = () => [new Customer('a', 'first'), new Customer('a', 'second')];
const add = (item: string) => calls(call('cart_k_add', { item }));

describe('an entity that is found again', () => {
  it('has its instance refreshed, without an event and under the same spec', async () => {
    let visits = 0;
    const act: Act = (key) => new Customer(key, `visit ${(visits += 1)}`);
    const again = call('customer_a_getAverageSpend');
    const { events, result, model } = await playSteps(
      [calls(find('a')), calls(again), calls(find('a')), calls(again)],
      act,
    );
    expect(eventsOf(events, 'tools-injected')).toHaveLength(1);
    expect(result.injectedTools).toHaveLength(2);
    expect(resultsIn(result.messages).filter((content) => content.startsWith('acme'))).toEqual([
      'acme:a:visit 1',
      'acme:a:visit 2',
    ]);
    expect(model.requests[4]?.tools).toBe(model.requests[1]?.tools);
  });

  it('counts once when it is twice in one result, and the last instance is called', async () => {
    const script = [
      calls(call('probe__customers', { key: 'x' })),
      calls(call('customer_a_getAverageSpend')),
    ];
    const { result } = await playSteps(script, twice, {
      request: { limits: { injectedTools: 2 } },
    });
    expect(result.injectedTools).toHaveLength(2);
    expect(resultsIn(result.messages).at(-1)).toBe('acme:a:second');
  });

  it('keeps what it keeps between the calls of a run', async () => {
    const script = [
      calls(call('crm__openCart', { id: 'k' })),
      add('tea'),
      add('milk'),
      calls(call('cart_k_list')),
    ];
    const { result } = await playSteps(script, named);
    expect(resultsIn(result.messages).slice(1)).toEqual(['1', '2', 'tea,milk']);
  });

  it('comes through its own tool, and the orders it brings have their own tools', async () => {
    const script = [
      calls(find('a')),
      calls(call('customer_a_getRecentOrders')),
      calls(call('order_a-1_describe')),
    ];
    const { result } = await playSteps(script, named);
    expect(resultsIn(result.messages).at(-1)).toBe('Order a-1 over 10');
    expect(result.toolCalls.at(-1)).toMatchObject({
      entity: { provider: 'Order', instanceId: 'a-1', depth: 2 },
    });
  });
});
