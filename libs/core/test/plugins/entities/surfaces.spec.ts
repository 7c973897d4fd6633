import { describe, expect, it } from '@jest/globals';
import type { LoopRequest, ToolInvocationRecord } from '@toolloop/core';
import type { EntitySurface } from '@toolloop/core/strategies';
import {
  ScriptedModel,
  call,
  calls,
  eventsOf,
  expectInjected,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { play, resultsIn, type PlayedRun } from '../../fixtures/played-run.js';
import { Customer } from '../../fixtures/shop.js';
import { ask, openShop, type ShopOptions } from '../../fixtures/shop.module.js';
import { SURFACES, over, show, type SaidCall } from './surface-calls.js';

interface Played extends PlayedRun {
  readonly model: ScriptedModel;
}

const people = (key: string) => key.split(',').map((id) => new Customer(id, id.toUpperCase()));

async function playOn(
  surface: EntitySurface | undefined,
  script: readonly ScriptedTurn[],
  {
    request,
    shop,
    isCut,
  }: {
    readonly request?: Partial<LoopRequest>;
    readonly shop?: ShopOptions;
    readonly isCut?: boolean;
  } = {},
): Promise<Played> {
  const model = new ScriptedModel([...script, text('Done.')]);
  const loop = await openShop(model, shop);
  const played = await play(
    loop,
    ask({ context: { act: people }, ...(surface && { surface }), ...request }),
  );
  if (!isCut) model.assertComplete();
  return { ...played, model };
}

const spend = (id: string): SaidCall => ({ prefix: 'customer', id, method: 'getAverageSpend' });
const lastOf = ({ result }: PlayedRun): ToolInvocationRecord | undefined => result.toolCalls.at(-1);
const idsAt = ({ model }: Played, step: number) => model.requests[step - 1]?.toolIds ?? [];

describe.each(SURFACES)('over the surface %s', (surface) => {
  it('two customers stand side by side, and each is called on its own', async () => {
    const script = [
      show('ann,bob'),
      calls(over(surface, spend('ann')), over(surface, spend('bob'))),
    ];
    const { result, events } = await playOn(surface, script);
    expect(resultsIn(result.messages).slice(1)).toEqual(['acme:ann:ANN', 'acme:bob:BOB']);
    expectInjected(events, {
      provider: 'Customer',
      instanceId: 'bob',
      tools: ['customer_bob_getAverageSpend'],
    });
  });

  it('a list of 50 is all there', async () => {
    const many = Array.from({ length: 50 }, (_, index) => `c-${index}`);
    const script = [
      show(many.join(',')),
      calls(over(surface, spend('c-0')), over(surface, spend('c-49'))),
    ];
    const { result, events } = await playOn(surface, script, {
      request: { limits: { injectedTools: 100 } },
    });
    expect(eventsOf(events, 'tools-injected').filter(({ instanceId }) => instanceId)).toHaveLength(
      50,
    );
    expect(resultsIn(result.messages).slice(1)).toEqual(['acme:c-0:C-0', 'acme:c-49:C-49']);
  });

  it('records and events are those of the entity, and the transcript has the name that was called', async () => {
    const said = over(surface, spend('ann'));
    const { result, events } = await playOn(surface, [show('ann'), calls(said)]);
    const id = 'customer_ann_getAverageSpend';
    expect(result.toolCalls[1]).toMatchObject({
      id,
      declaredId: 'customer_*_getAverageSpend',
      entity: { provider: 'Customer', instanceId: 'ann', depth: 1 },
      args: {},
      status: 'succeeded',
    });
    expect(eventsOf(events, 'tool-call')[1]).toMatchObject({ tool: id, args: {} });
    expect(eventsOf(events, 'tool-start')[1]).toMatchObject({ tool: id, effect: 'read_only' });
    expect(result.messages.findLast(({ role }) => role === 'tool')).toMatchObject({
      toolName: said.name,
    });
  });

  it('the same entity again refreshes its instance: no event, the very same tools', async () => {
    let visits = 0;
    const act = () => new Customer('ann', `visit ${(visits += 1)}`);
    const script = [
      show('a'),
      calls(over(surface, spend('ann'))),
      show('b'),
      calls(over(surface, spend('ann'))),
    ];
    const { result, events, model } = await playOn(surface, script, {
      request: { context: { act } },
    });
    expect(eventsOf(events, 'tools-injected').filter(({ instanceId }) => instanceId)).toHaveLength(
      1,
    );
    expect(resultsIn(result.messages).filter((content) => content.startsWith('acme'))).toEqual([
      'acme:ann:visit 1',
      'acme:ann:visit 2',
    ]);
    expect(model.requests[4]?.tools).toBe(model.requests[1]?.tools);
  });

  it('Customer → Order → LineItem go as deep as the limit says, and no deeper', async () => {
    const orders: SaidCall = { prefix: 'customer', id: 'ann', method: 'getRecentOrders' };
    const describing: SaidCall = { prefix: 'order', id: 'ann-1', method: 'describe' };
    const script = [show('ann'), calls(over(surface, orders)), calls(over(surface, describing))];
    const deep = await playOn(surface, script);
    expect(lastOf(deep)).toMatchObject({
      status: 'succeeded',
      entity: { provider: 'Order', instanceId: 'ann-1', depth: 2 },
    });
    const shallow = await playOn(surface, script, { request: { limits: { injectionDepth: 1 } } });
    expect(lastOf(shallow)?.status).toBe('failed');
    expect(eventsOf(shallow.events, 'warning')).toMatchObject([{ code: 'injection_depth' }]);
  });

  it('a tool that policy denies is not there, and reads like an unknown one', async () => {
    const policy = { allow: ['*'], deny: ['customer_*_getRecentOrders'] };
    const recent = (method: string) =>
      calls(over(surface, { prefix: 'customer', id: 'ann', method }));
    const script = [show('ann'), recent('getRecentOrders'), recent('getRecentOwners')];
    const { result } = await playOn(surface, script, { request: { policy } });
    const [denied = '', unknown = ''] = resultsIn(result.messages).slice(1);
    expect(denied.replaceAll('getRecentOrders', 'getRecentOwners')).toBe(unknown);
    expect(denied).toContain('"unknown_tool"');
  });

  it('a limit counts calls by the declared id, whatever the instance', async () => {
    const script = [
      show('ann,bob'),
      calls(over(surface, spend('ann')), over(surface, spend('bob'))),
    ];
    const { result } = await playOn(surface, script, {
      request: { limits: { callsPerTool: 1 } },
      isCut: true,
    });
    expect(result.toolCalls.map(({ error }) => error?.code)).toEqual([
      undefined,
      undefined,
      'budget_exceeded',
    ]);
  });

  it('two identical calls are recognised by instance and arguments', async () => {
    const [ann, bob] = [over(surface, spend('ann')), over(surface, spend('bob'))];
    const script = [show('ann,bob'), calls(ann, bob), calls(ann)];
    const { result } = await playOn(surface, script, {
      request: { limits: { identicalCalls: 1 } },
      isCut: true,
    });
    expect(result.toolCalls.map(({ error }) => error?.code)).toEqual([
      undefined,
      undefined,
      undefined,
      'budget_exceeded',
    ]);
  });

  it('`prepareStep` narrows to one method, and what is left out cannot be called', async () => {
    const tools = ['customer_*_getAverageSpend', 'probe__show'];
    const recent = over(surface, { prefix: 'customer', id: 'ann', method: 'getRecentOrders' });
    const script = [show('ann'), calls(over(surface, spend('ann')), recent)];
    const played = await playOn(surface, script, { request: { prepareStep: () => ({ tools }) } });
    expect(played.result.toolCalls.map(({ status }) => status)).toEqual([
      'succeeded',
      'succeeded',
      'failed',
    ]);
    expect(idsAt(played, 2)).toHaveLength(2);
  });

  it('an excluded class, and `injection: false`, leave nothing', async () => {
    const first = call('probe__read', { key: 'x' });
    for (const request of [{ exclude: [Customer] }, { injection: false as const }]) {
      const played = await playOn(surface, [show('ann'), calls(first)], { request });
      expect(idsAt(played, 3).filter((id) => id.startsWith('customer'))).toEqual([]);
      expect(eventsOf(played.events, 'tools-injected')).toEqual([]);
    }
  });

  it('a strategy takes a method away from all, and a result brings it back', async () => {
    const remover = {
      name: 'remover',
      evaluate: ({
        step,
        toolset,
      }: {
        readonly step: number;
        readonly toolset: readonly { readonly id: string; readonly declaredId: string }[];
      }) => ({
        remove:
          step === 2
            ? toolset
                .filter(({ declaredId }) => declaredId === 'customer_*_getAverageSpend')
                .map(({ id }) => id)
            : [],
      }),
    };
    const one = calls(over(surface, spend('ann')));
    const { result } = await playOn(surface, [show('ann'), show('bob'), one, show('ann'), one], {
      request: { injection: [remover] },
    });
    expect(result.toolCalls.map(({ error }) => error?.code)).toEqual([
      undefined,
      undefined,
      'tool_gone',
      undefined,
      undefined,
    ]);
  });
});

it('`prepareStep` may name a group by its own id', async () => {
  const tools = ['customer__getAverageSpend', 'probe__show'];
  const recent = over('grouped', { prefix: 'customer', id: 'ann', method: 'getRecentOrders' });
  const script = [show('ann'), calls(over('grouped', spend('ann')), recent)];
  const played = await playOn('grouped', script, { request: { prepareStep: () => ({ tools }) } });
  expect(played.result.toolCalls.map(({ status }) => status)).toEqual([
    'succeeded',
    'succeeded',
    'failed',
  ]);
  expect(idsAt(played, 2)).toEqual(['probe__show', 'customer__getAverageSpend']);
});

const say = (prefix: string, id: string, method: string) =>
  over('dispatcher', { prefix, id, method });

it('a method that `prepareStep` leaves out of a dispatcher reads like an unknown one, whatever instances there are', async () => {
  const tools = ['customer_*_getAverageSpend', 'probe__show'];
  const hidden = [
    say('customer', 'ann', 'getRecentOrders'),
    say('customer', 'zoe', 'getRecentOrders'),
    say('order', 'o', 'cancel'),
  ];
  const script = [show('ann'), calls(...hidden, say('customer', 'zoe', 'getAverageSpend'))];
  const { result } = await playOn('dispatcher', script, {
    request: { prepareStep: () => ({ tools }) },
    isCut: true,
  });
  expect(result.toolCalls.slice(1).map(({ error }) => error?.code)).toEqual([
    'unknown_tool',
    'unknown_tool',
    'unknown_tool',
    'invalid_args',
  ]);
});
