import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  InvalidRequestError,
  LlmTool,
  type LoopRequest,
  ToolProvider,
  type ToolSpec,
} from '@toolloop/core';
import type { ToolInjectionContext } from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import { play } from '../fixtures/played-run.js';
import { ProbeTools } from '../fixtures/probe.tools.js';
import { Customer } from '../fixtures/shop.js';
import { ask, openShop, type ShopOptions } from '../fixtures/shop.module.js';

const find = (key: string) => calls(call('probe__customer', { key }));
const read = (key: string) => calls(call('probe__read', { key }));
const act = (key: string) => new Customer(key, key);

async function toolsOf(
  script: readonly ScriptedTurn[],
  request: Partial<LoopRequest> = {},
  shop: ShopOptions = {},
): Promise<readonly (readonly ToolSpec[])[]> {
  const model = new ScriptedModel([...script, text('Done.')]);
  await play(await openShop(model, shop), ask(request));
  model.assertComplete();
  return model.requests.map(({ tools }) => tools);
}

const ids = (tools: readonly ToolSpec[] | undefined) => tools?.map(({ id }) => id);
const OWN = [
  'crm__searchCustomers',
  'crm__openCart',
  'crm__sendMail',
  'probe__read',
  'probe__write',
  'probe__send',
  'probe__customer',
  'probe__customers',
  'probe__orders',
  'probe__cart',
  'probe__show',
];

describe('invariant 7: the toolset', () => {
  it('is read anew before every model call', async () => {
    const tools = await toolsOf([find('a'), read('x'), find('b')], { context: { act } });
    expect(tools.map((specs) => specs.length - OWN.length)).toEqual([0, 2, 2, 4]);
  });

  it('keeps the order and the very specs of what was there, and adds at the end', async () => {
    const tools = await toolsOf([find('a'), find('b'), find('c')], { context: { act } });
    tools.slice(1).forEach((later, index) => {
      const before = tools[index] ?? [];
      expect(before.length).toBeLessThan(later.length);
      before.forEach((spec, position) => expect(later[position]).toBe(spec));
    });
  });

  it('is the very same array for as long as nothing changed', async () => {
    const tools = await toolsOf([read('x'), find('a'), read('y'), find('a'), read('z')], {
      context: { act },
    });
    expect(tools[1]).toBe(tools[0]);
    expect(tools[2]).not.toBe(tools[1]);
    for (const later of tools.slice(3)) expect(later).toBe(tools[2]);
  });

  it('keeps the very specs of what was found again, even when something else goes', async () => {
    const remover = {
      name: 'remover',
      evaluate: ({ step }: ToolInjectionContext) =>
        step === 3 ? { remove: ['probe__write'] } : {},
    };
    const tools = await toolsOf([find('a'), find('a'), read('x')], {
      context: { act },
      injection: [remover],
    });
    const [, before = [], , after = []] = tools;
    expect(after).toEqual(before.filter(({ id }) => id !== 'probe__write'));
    for (const spec of after) expect(before).toContain(spec);
  });

  it('is made of the very same specs in every run', async () => {
    const model = new ScriptedModel([text('A'), text('B')]);
    const loop = await openShop(model);
    await play(loop, ask());
    await play(loop, ask({ tenant: 'globex' }));
    const [one, other] = model.requests.map(({ tools }) => tools);
    one?.forEach((spec, index) => expect(other?.[index]).toBe(spec));
  });

  it('is of frozen specs', async () => {
    const tools = await toolsOf([find('a')], { context: { act } });
    for (const spec of tools.flat()) expect(Object.isFrozen(spec)).toBe(true);
  });

  it('does not change in the middle of a step', async () => {
    const model = new ScriptedModel([
      calls(call('probe__customer', { key: 'a' }), call('customer_a_getAverageSpend')),
      text('Done.'),
    ]);
    const { result } = await play(await openShop(model), ask({ context: { act } }));
    expect(result.toolCalls[1]).toMatchObject({ error: { code: 'unknown_tool' } });
  });

  it('is told of with every step', async () => {
    const { events } = await play(
      await openShop(new ScriptedModel([find('a'), text('Done.')])),
      ask({ context: { act } }),
    );
    expect(eventsOf(events, 'run-start')[0]?.tools).toEqual(OWN);
    expect(eventsOf(events, 'step-start').map(({ tools }) => tools)).toEqual([
      OWN.length,
      OWN.length + 2,
    ]);
  });

  it('is handed messages that are the very same objects, step by step', async () => {
    const model = new ScriptedModel([read('a'), read('b'), text('Done.')]);
    await play(await openShop(model), ask());
    const [one = [], two = [], three = []] = model.requests.map(
      ({ originalMessages }) => originalMessages,
    );
    one.forEach((message, index) => expect(two[index]).toBe(message));
    two.forEach((message, index) => expect(three[index]).toBe(message));
    expect([one.length, two.length, three.length]).toEqual([1, 3, 5]);
  });
});

@Injectable()
@ToolProvider({ namespace: 'acme_only' })
class AcmeTools {
  @LlmTool({
    description: 'Only for acme.',
    effect: 'read_only',
    reveal: 'all',
    when: ({ tenant }) => tenant === 'acme',
  })
  bell(): string {
    return 'ding';
  }
}

describe('what a run starts with', () => {
  it.each<[string, Partial<LoopRequest>, string[]]>([
    ['everything', {}, OWN],
    ['a glob', { tools: ['crm__*'] }, OWN.slice(0, 3)],
    [
      'ids and short names, in the order of the catalog',
      { tools: ['write', 'probe__read'] },
      ['probe__read', 'probe__write'],
    ],
    ['a class', { tools: [ProbeTools] }, OWN.slice(3)],
    [
      'a predicate',
      { tools: [({ effect }) => effect === 'external_side_effect'] },
      ['crm__sendMail', 'probe__send'],
    ],
    [
      'all but some',
      { exclude: [ProbeTools, 'crm__open*'] },
      ['crm__searchCustomers', 'crm__sendMail'],
    ],
    ['nothing', { tools: [] }, []],
    [
      "what the run's policy leaves",
      { policy: { allow: ['crm__*'], effects: ['read_only'] } },
      ['crm__searchCustomers'],
    ],
    ["no more than the module's policy allows", { policy: { allow: ['*'] } }, OWN],
  ])('is %s', async (_, request, expected) => {
    expect(ids((await toolsOf([], request))[0])).toEqual(expected);
  });

  it('is never more than the policy of the module', async () => {
    const policy = { allow: ['crm__searchCustomers'] };
    expect(ids((await toolsOf([], { policy: { allow: ['*'] } }, { policy }))[0])).toEqual([
      'crm__searchCustomers',
    ]);
  });

  it('is what makes sense for the run', async () => {
    const shop = { providers: [AcmeTools] };
    const tools = ['acme_only__bell'];
    expect(ids((await toolsOf([], { tools }, shop))[0])).toEqual(tools);
    expect(ids((await toolsOf([], { tools, tenant: 'globex' }, shop))[0])).toEqual([]);
  });

  it('is what `list` says', async () => {
    const loop = await openShop(new ScriptedModel([]), { providers: [AcmeTools] });
    expect(ids(await loop.list(ask({ tenant: 'globex', exclude: [ProbeTools] })))).toEqual(
      OWN.slice(0, 3),
    );
  });

  it.each(['tools', 'exclude'] as const)(
    'is refused at once where %s names nothing, with what comes close',
    async (name) => {
      const loop = await openShop(new ScriptedModel([]));
      expect(() => loop.open(ask({ [name]: ['crm__searchCustomer'] }))).toThrow(
        InvalidRequestError,
      );
      expect(() => loop.open(ask({ [name]: ['crm__searchCustomer'] }))).toThrow(
        'Did you mean "crm__searchCustomers"',
      );
    },
  );
});
