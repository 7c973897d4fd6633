import { describe, expect, it } from '@jest/globals';
import {
  PendingService,
  DEFAULT_LIMITS,
  type Limits,
  type LoopEvent,
  ToolLoopService,
} from '@toolloop/core';
import {
  ScriptedModel,
  calls,
  collect,
  eventsOf,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { play, resultOf, resultsIn, type PlayedRun } from '../../fixtures/played-run.js';
import { Customer } from '../../fixtures/shop.js';
import { ask, openModule, openShop } from '../../fixtures/shop.module.js';
import {
  SURFACES,
  over,
  show,
  type KnownSurface,
  type SaidCall,
} from '../entities/surface-calls.js';

const people = (key: string) => key.split(',').map((id) => new Customer(id, id.toUpperCase()));
const spend = (id: string): SaidCall => ({ prefix: 'customer', id, method: 'getAverageSpend' });

interface Played extends PlayedRun {
  readonly model: ScriptedModel;
}

async function playOn(
  surface: KnownSurface,
  script: readonly ScriptedTurn[],
  limits: Partial<Limits>,
): Promise<Played> {
  const model = new ScriptedModel([...script, text('Done.')]);
  const played = await play(
    await openShop(model),
    ask({ context: { act: people }, surface, limits }),
  );
  model.assertComplete();
  return { ...played, model };
}

const two = { injectedInstances: 2 };
const codesOf = ({ result }: PlayedRun) => result.toolCalls.map(({ error }) => error?.code);

describe.each(SURFACES)('past the limit of instances, over the surface %s,', (surface) => {
  const look = (...ids: string[]) => calls(...ids.map((id) => over(surface, spend(id))));

  it('the least recently used goes, and a call of it is told how to get it back', async () => {
    const played = await playOn(
      surface,
      [show('ann'), show('bob'), show('cid'), look('ann', 'bob', 'cid')],
      two,
    );
    expect(codesOf(played)).toEqual([
      undefined,
      undefined,
      undefined,
      'tool_gone',
      undefined,
      undefined,
    ]);
    expect(eventsOf(played.events, 'tools-removed')).toMatchObject([
      {
        step: 3,
        tools: ['customer_ann_getAverageSpend', 'customer_ann_getRecentOrders'],
        reason: 'room for newer entities',
      },
    ]);
    expect(resultsIn(played.result.messages)[3]).toContain(
      'To get it back, call probe__show again.',
    );
    expect(played.result.finishReason).toBe('stop');
    const [before, behind] = [played.model.requests[2]?.tools, played.model.requests[3]?.tools];
    // what is called over a surface comes and goes without a byte
    expect(behind === before).toBe(surface !== 'named');
  });

  it('a call counts as use', async () => {
    const played = await playOn(
      surface,
      [show('ann'), show('bob'), look('ann'), show('cid'), look('ann', 'bob')],
      two,
    );
    expect(codesOf(played).slice(-2)).toEqual([undefined, 'tool_gone']);
  });

  it('a return counts as a use as well', async () => {
    const played = await playOn(
      surface,
      [show('ann'), show('bob'), show('ann'), show('cid'), look('ann', 'bob')],
      two,
    );
    expect(codesOf(played).slice(-2)).toEqual([undefined, 'tool_gone']);
  });

  it('an instance that is returned again is back under its own name', async () => {
    const played = await playOn(
      surface,
      [show('ann'), show('bob,cid'), look('ann'), show('ann'), look('ann')],
      two,
    );
    expect(codesOf(played)).toEqual([undefined, undefined, 'tool_gone', undefined, undefined]);
    expect(played.result.toolCalls.at(-1)).toMatchObject({
      id: 'customer_ann_getAverageSpend',
      status: 'succeeded',
    });
  });

  it('the instances of one result do not push each other out: the first stay, and a warning reports the others', async () => {
    const played = await playOn(
      surface,
      [show('zoe'), show('ann,bob,cid'), look('ann', 'bob', 'cid', 'zoe')],
      two,
    );
    expect(codesOf(played).slice(2, 4)).toEqual([undefined, undefined]);
    expect(played.result.toolCalls[4]?.status).toBe('failed');
    expect(codesOf(played)[5]).toBe('tool_gone');
    expect(eventsOf(played.events, 'warning')).toMatchObject([
      {
        code: 'injection_cap',
        message: expect.stringMatching(
          /^The tools of Customer "cid" were not added: a run holds at most 2 entities/,
        ),
      },
    ]);
  });

  it('nothing goes for what was there already', async () => {
    const played = await playOn(
      surface,
      [show('ann,bob'), show('bob,ann'), look('ann', 'bob')],
      two,
    );
    expect(eventsOf(played.events, 'tools-removed')).toEqual([]);
  });

  it('a limit of none holds none', async () => {
    const played = await playOn(surface, [show('ann'), look('ann')], { injectedInstances: 0 });
    expect(played.result.toolCalls[1]?.status).toBe('failed');
    expect(
      eventsOf(played.events, 'tools-injected').filter(({ instanceId }) => instanceId),
    ).toEqual([]);
  });

  it('the removals that a run remembers stay bounded', async () => {
    const waves = Array.from({ length: 3 }, (_, wave) =>
      Array.from({ length: 1100 }, (__, index) => `w${wave}-${index}`).join(','),
    );
    const limits = { injectedInstances: 1100, injectedTools: 5_000, steps: 30 };
    const played = await playOn(
      surface,
      [...waves.map(show), show('last'), look('w0-0', 'w2-1')],
      limits,
    );
    expect(played.result.toolCalls.at(-2)?.error?.code).not.toBe('tool_gone');
    expect(codesOf(played).at(-1)).toBeUndefined();
  });
});

it('the limit of instances is 1,000, which a list of as many customers just meets', () => {
  expect(DEFAULT_LIMITS.injectedInstances).toBe(1_000);
});

/** What goes on begins with the very tools of before. */
function expectUnchanged(events: readonly LoopEvent[]): void {
  const [first] = eventsOf(events, 'usage');
  expect(first?.tools?.unchanged).toBe(first?.tools?.tools);
}

describe.each(SURFACES)('a run that waited, over the surface %s,', (surface) => {
  const UUID = '3f2b8c1e-9a4d-4c6b-8f7e-2d1c0b9a8e7f';
  const policy = {
    allow: ['*'],
    flow: 'off' as const,
    requireApproval: [{ tools: ['crm__openCart'] }],
  };
  /** Named tools of an id that is too long go by a handle, and the other surfaces take the id. */
  const long = (method: string): SaidCall => ({
    prefix: 'customer',
    id: surface === 'named' ? 'h1' : UUID,
    method,
  });

  it('has its instances, their names, their order of use and what is gone', async () => {
    const wait = calls({ name: 'crm__openCart', arguments: '{"id":"k"}' });
    const after = calls(
      over(surface, spend('ann')),
      over(surface, spend('bob')),
      over(surface, long('getAverageSpend')),
    );
    const script = [
      show('ann'),
      show('bob'),
      show(UUID),
      wait,
      after,
      show('dan'),
      calls(over(surface, spend('bob'))),
      text('Done.'),
    ];
    const model = new ScriptedModel(script);
    const module = await openModule(model, { policy });
    const request = {
      actor: { id: 'alice' },
      tenant: 'acme',
      context: { act: people },
      surface,
      limits: { injectedInstances: 2 },
    };
    const loop = module.get(ToolLoopService);
    const waiting = await loop.run({ prompt: 'Go on.', ...request });
    expect(waiting.finishReason).toBe('waiting');
    const service = module.get(PendingService);
    const [open] = await service.list({ actor: { id: 'alice' }, tenant: 'acme' });
    await service.decide(
      { approvalId: open?.approvalId ?? '', decision: 'deny' },
      { actor: { id: 'alice' }, tenant: 'acme' },
    );
    const handle = await loop.resume(waiting.runId, request);
    const events = await collect(handle.events$);
    const result = await resultOf(handle);
    expectUnchanged(events);
    const later = result.toolCalls.slice(4);
    expect(later.map(({ error }) => error?.code)).toEqual([
      'tool_gone',
      undefined,
      undefined,
      undefined,
      'tool_gone',
    ]);
    expect(later[2]).toMatchObject({
      status: 'succeeded',
      id: 'customer_h1_getAverageSpend',
      entity: { instanceId: UUID },
    });
    const [before, behind] = [model.requests[3], model.requests[4]].map((one) =>
      one?.tools.map((tool) => JSON.stringify(tool)),
    );
    expect(behind).toEqual(before);
  });

  it('has its tools in the order in which they came back, and the results of what was done', async () => {
    const wait = { name: 'crm__openCart', arguments: '{"id":"k"}' };
    const orders = over(surface, { prefix: 'customer', id: 'ann', method: 'getRecentOrders' });
    const after = calls(over(surface, { prefix: 'order', id: 'ann-1', method: 'describe' }));
    const script = [
      show('ann'),
      show('bob'),
      show('cid'),
      show('ann'),
      calls(orders, wait),
      after,
      text('Done.'),
    ];
    const model = new ScriptedModel(script);
    const module = await openModule(model, { policy });
    const request = {
      actor: { id: 'alice' },
      tenant: 'acme',
      context: { act: people },
      surface,
      limits: { injectedInstances: 4 },
    };
    const loop = module.get(ToolLoopService);
    const waiting = await loop.run({
      prompt: 'Go on.',
      ...request,
      limits: { injectedInstances: 2 },
    });
    const [open] = await module
      .get(PendingService)
      .list({ actor: { id: 'alice' }, tenant: 'acme' });
    const decision = { approvalId: open?.approvalId ?? '', decision: 'deny' } as const;
    await module.get(PendingService).decide(decision, { actor: { id: 'alice' }, tenant: 'acme' });
    const result = await resultOf(await loop.resume(waiting.runId, request));
    const [before = [], behind = []] = [model.requests[4], model.requests[5]].map(
      (one) => one?.toolIds,
    );
    expect(behind.slice(0, before.length)).toEqual(before);
    expect(result.toolCalls.at(-1)).toMatchObject({
      status: 'succeeded',
      entity: { provider: 'Order', instanceId: 'ann-1' },
    });
  });
});
