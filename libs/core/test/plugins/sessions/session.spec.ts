import { describe, expect, it, jest } from '@jest/globals';
import { type LoopEvent, LoopEventSink, policies, type ToolCallContext } from '@toolloop/core';
import type { LoopHooks, SessionOptions, ToolsChange } from '@toolloop/core/contracts';
import { collect, eventsOf } from '@toolloop/testing';
import { setTimeout as wait } from 'node:timers/promises';
import { alice, asking } from '../../fixtures/approval.shop.js';
import { Cart, Customer } from '../../fixtures/shop.js';
import { bob, key, shop } from './desk.js';

const notingRuns = (_: string, { state, runId }: ToolCallContext) => {
  state.set('runs', [...((state.get('runs') as string[] | undefined) ?? []), runId]);
  return state.get('runs');
};

const slowCustomer = async (id: string) => {
  await wait(Math.random() * 5);
  return new Customer(id, 'ann');
};

const customerOf = (id: string, { tenant }: ToolCallContext) => new Customer(id, 'ann', tenant);

const slowly = async (name: string) => (name === 'slow' ? wait(400) : undefined);

const untilAborted = (name: string, { signal }: ToolCallContext) =>
  name === 'slow'
    ? new Promise((_, reject) =>
        signal.addEventListener('abort', () => reject(new Error('told')), { once: true }),
      )
    : name;

describe('a session', () => {
  it('lists the tools of its actor, and those that a result has brought, under every id that names one', async () => {
    const { open } = await shop();
    const session = await open({ tools: ['crm__searchCustomers'] });
    expect((await session.list()).map(({ id }) => id)).toEqual(['crm__searchCustomers']);
    const { injectedTools } = await session.call('crm__searchCustomers', { name: 'ann' });
    expect(injectedTools.map(({ id }) => id)).toEqual([
      'customer_c-1_getAverageSpend',
      'customer_c-1_getRecentOrders',
    ]);
    expect([...session.tools.keys()]).toEqual([
      'crm__searchCustomers',
      'customer_c-1_getAverageSpend',
      'customer_c-1_getRecentOrders',
      'customer_*_getAverageSpend',
      'customer_*_getRecentOrders',
    ]);
    const bound = await session.tools.get('customer_c-1_getAverageSpend')?.();
    expect(bound).toMatchObject({ ui: 'acme:c-1:ann', injectedTools: [] });
  });

  it('gives each call a run of its own, and all of them one state', async () => {
    const { open } = await shop();
    const session = await open({ context: { act: notingRuns } });
    const first = await session.call('probe__read', key('a'));
    const second = await session.call('probe__read', key('a'));
    expect(second.ui).toEqual([first.runId, second.runId]);
    expect(first.runId).not.toBe(second.runId);
  });

  it('is named to hooks and to tools beside the run of the call', async () => {
    const told: (readonly (string | undefined)[])[] = [];
    const { open, loop, context } = await shop();
    const act = (_: string, { sessionId, runId }: ToolCallContext) => told.push([sessionId, runId]);
    const hooks: LoopHooks = {
      onToolStart: ({ sessionId, runId }) => void told.push([sessionId, runId]),
    };
    const session = await open({ hooks, context: { act } });
    const { runId } = await session.call('probe__read', key('a'));
    expect(told).toEqual([
      [session.sessionId, runId],
      [session.sessionId, runId],
    ]);
    const alone = await loop.call({
      tool: 'probe__read',
      args: key('a'),
      hooks,
      context,
      ...alice,
    });
    expect(told.at(-1)).toEqual([undefined, alone.runId]);
  });

  it.each([
    ['alone', {}],
    ['with a signal of its own', { signal: new AbortController().signal }],
  ])(
    'tells the caller of a call %s what its tool says of its progress, before it resolves',
    async (_, options) => {
      const { open } = await shop();
      const session = await open({
        context: {
          act: (_key: string, told: ToolCallContext) => (
            told.progress(1),
            told.progress({ of: 2 }),
            'done'
          ),
        },
      });
      const told: unknown[] = [];
      const { ui } = await session.call('probe__read', key('a'), {
        ...options,
        onProgress: (value) => told.push(value),
      });
      expect([...told, ui]).toEqual([1, { of: 2 }, 'done']);
    },
  );

  it('describes a tool that it has by its rendered id, and no other', async () => {
    const { open } = await shop();
    const session = await open({ tools: ['crm__searchCustomers'] });
    expect(session.describe('customer_c-1_getAverageSpend')).toBeUndefined();
    await session.call('crm__searchCustomers', { name: 'ann' });
    expect(session.describe('customer_c-1_getAverageSpend')?.spec.declaredId).toBe(
      'customer_*_getAverageSpend',
    );
    expect(session.describe('probe__read')).toBeUndefined();
  });

  it('keeps the instance that a call returned for the calls that follow', async () => {
    const cart = new Cart('k1');
    const { open } = await shop();
    const session = await open({ context: { act: () => cart } });
    await session.call('probe__cart', key('a'));
    await session.call('cart_k1_add', { item: 'tea' });
    await session.call('cart_k1_add', { item: 'milk' });
    expect((await session.call('cart_k1_list')).ui).toBe('tea,milk');
  });

  it('gives an unsafe id one handle for as long as it is open', async () => {
    const { open } = await shop();
    const session = await open({ context: { act: (id: string) => new Customer(id, 'eve') } });
    const ids = async (id: string) =>
      (await session.call('probe__customer', key(id))).injectedTools.map((spec) => spec.id);
    expect(await ids('c/1')).toEqual([
      'customer_h1_getAverageSpend',
      'customer_h1_getRecentOrders',
    ]);
    expect(await ids('c 2')).toEqual([
      'customer_h2_getAverageSpend',
      'customer_h2_getRecentOrders',
    ]);
    expect(await ids('c/1')).toEqual([]);
    expect((await session.call('customer_h1_getAverageSpend')).ui).toBe('acme:c/1:eve');
  });

  it.each([
    { that: 'that have their results at once', act: customerOf },
    { that: 'of which each takes its time', act: slowCustomer },
  ])('loses no tool of calls that are made at once, $that', async ({ act }) => {
    const { open } = await shop();
    const session = await open({ context: { act }, limits: { injectedTools: 100 } });
    const made = await Promise.all(
      Array.from({ length: 20 }, (_, index) => session.call('probe__customer', key(`c-${index}`))),
    );
    expect(made.map(({ injectedTools }) => injectedTools.map(({ id }) => id))).toEqual(
      Array.from({ length: 20 }, (_, index) => [
        `customer_c-${index}_getAverageSpend`,
        `customer_c-${index}_getRecentOrders`,
      ]),
    );
    expect([...session.tools.keys()].filter((id) => id.endsWith('getAverageSpend'))).toHaveLength(
      20,
    );
  });

  it('tells who watches it which tools came and went, and completes when it is closed', async () => {
    const actor = { id: 'alice', roles: ['desk'] };
    const { open } = await shop({
      policy: {
        version: '1',
        allow: ['crm__*', 'customer_*_*'],
        roles: { desk: { allow: ['probe__read'] } },
        flow: 'off',
      },
    });
    const session = await open({ actor });
    const told: ToolsChange[] = [];
    let isComplete = false;
    session.changes$.subscribe({
      next: (change) => told.push(change),
      complete: () => (isComplete = true),
    });
    await session.call('crm__searchCustomers', { name: 'ann' });
    await session.call('crm__searchCustomers', { name: 'ann' });
    actor.roles = [];
    await session.list();
    expect(told.map(({ added, removed }) => [added.map(({ id }) => id), removed])).toEqual([
      [['customer_c-1_getAverageSpend', 'customer_c-1_getRecentOrders'], []],
      [[], ['probe__read']],
    ]);
    actor.roles = ['desk'];
    expect((await session.list()).map(({ id }) => id)).toContain('probe__read');
    await session.close();
    expect(isComplete).toBe(true);
  });

  it('is told as runs, each once, with the tools that its calls brought', async () => {
    class Noted extends LoopEventSink {
      readonly events: LoopEvent[] = [];
      override write(event: LoopEvent): void {
        this.events.push(event);
      }
    }
    const sink = new Noted();
    const { open } = await shop({ providers: [{ provide: 'sink', useValue: sink }] });
    const session = await open();
    const { runId, injectedTools } = await session.call('crm__searchCustomers', { name: 'ann' });
    expect(injectedTools).toHaveLength(2);
    expect(sink.events.map(({ type }) => type)).toEqual([
      'run-start',
      'step-start',
      'tool-call',
      'tool-start',
      'tool-result',
      'tools-injected',
      'step-end',
      'run-end',
    ]);
    expect(new Set(sink.events.map((event) => event.runId))).toEqual(new Set([runId]));
  });

  it('is told which call is one refusal too many in a row', async () => {
    class Noted extends LoopEventSink {
      readonly ends: string[] = [];
      override write(event: LoopEvent): void {
        if (event.type === 'run-end') this.ends.push(event.finishReason);
      }
    }
    const sink = new Noted();
    const { open } = await shop({ providers: [{ provide: 'sink', useValue: sink }] });
    const session = await open({ policy: policies.readOnly });
    for (const each of ['a', 'b', 'c']) await session.call('probe__write', key(each));
    expect(sink.ends).toEqual(['stop', 'stop', 'forbidden']);
  });

  it('is narrowed by its own selection, policy and limits, which widen nothing', async () => {
    const { open, done } = await shop({
      policy: { version: '1', allow: ['probe__read', 'probe__write'], flow: 'off' },
    });
    const session = await open({
      policy: policies.readOnly,
      exclude: ['crm__*'],
      limits: { callsPerTool: 2 },
    });
    expect((await session.call('probe__write', key('w'))).record.status).toBe('denied');
    expect((await session.call('probe__send', key('w'))).record.status).toBe('denied');
    await session.call('probe__read', key('1'));
    await session.call('probe__read', key('2'));
    expect((await session.call('probe__read', key('3'))).record).toMatchObject({
      error: { code: 'budget_exceeded' },
    });
    expect(done).toEqual(['1', '2']);
  });

  it.each([
    ['no tenant', { tenant: '' }, 'A run needs a tenant'],
    ['no actor', { actor: null }, 'A run needs an actor'],
    ['an option of a call', { tool: 'probe__read' }, 'There is no option "tool".'],
    ['a scope that is no text', { scope: 7 }, 'The option "scope" is 7.'],
    [
      'a scope, and an actor without an id',
      { scope: 'desk', actor: {} },
      'An account belongs to an actor',
    ],
  ])('is refused with %s', async (_, wrong, message) => {
    const { open } = await shop();
    await expect(open(wrong as never)).rejects.toThrow(message);
  });

  it('has its effect once for a request id, in whichever session it is sent again', async () => {
    const { open, done } = await shop();
    const [one, other] = [await open(), await open()];
    await one.call('probe__write', key('w'), { requestId: 'r1' });
    expect((await other.call('probe__write', key('w'), { requestId: 'r1' })).record.status).toBe(
      'succeeded',
    );
    expect(done).toEqual(['w']);
  });

  it('aborts one call by its own signal, and no other', async () => {
    const { open } = await shop();
    const session = await open({ context: { act: untilAborted } });
    const controller = new AbortController();
    const slow = session.call('probe__read', key('slow'), { signal: controller.signal });
    const quick = session.call('probe__read', key('quick'));
    controller.abort();
    await expect(slow).rejects.toMatchObject({ result: { finishReason: 'aborted' } });
    expect((await quick).ui).toBe('quick');
    expect((await session.call('probe__read', key('quick'))).ui).toBe('quick');
  });
});

const timers = (): number =>
  process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;

describe('the time limit of a session', () => {
  it.each([
    ['alone', {}],
    ['beside a signal of the call', { signal: new AbortController().signal }],
  ])('holds for each of its calls, %s', async (_, options) => {
    const { open } = await shop();
    const session = await open({ limits: { runMs: 100 }, context: { act: slowly } });
    const { record } = await session.call('probe__read', key('slow'), options);
    expect(record).toMatchObject({
      status: 'failed',
      error: { code: 'timeout', safeMessage: 'The call took longer than 100 ms.' },
    });
    expect((await session.call('probe__read', key('quick'), options)).record.status).toBe(
      'succeeded',
    );
  });

  it('leaves no timer behind a call that has ended', async () => {
    const { open } = await shop();
    const session = await open({ limits: { runMs: 600_000 } });
    await session.call('probe__read', key('a'));
    const before = timers();
    for (let number = 0; number < 20; number += 1) await session.call('probe__read', key('a'));
    expect(timers()).toBeLessThanOrEqual(before + 1);
  });
});

describe('a session that is closed', () => {
  it('says of a write under way that it is unknown whether it took place', async () => {
    const { open } = await shop();
    const session = await open({ context: { act: () => wait(300) } });
    const made = session.call('probe__write', key('a')).catch((error: unknown) => error);
    await wait(50);
    await session.close();
    expect(await made).toMatchObject({
      name: 'RunError',
      message:
        'The run was stopped. It is unknown whether probe__write took place: check before you call it again.',
      result: {
        finishReason: 'aborted',
        toolCalls: [{ id: 'probe__write', error: { code: 'unknown_outcome' } }],
      },
    });
  });

  it('aborts the calls under way, and takes no more', async () => {
    const { open } = await shop();
    const told: string[] = [];
    const act = (_: string, { signal }: ToolCallContext) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => (told.push('aborted'), reject(new Error('told'))), {
          once: true,
        }),
      );
    const session = await open({ context: { act } });
    const made = session.call('probe__read', key('a')).catch((error: unknown) => error);
    await wait(10);
    await session.close();
    expect(await made).toMatchObject({ result: { finishReason: 'aborted' } });
    expect(told).toEqual(['aborted']);
    expect(session.isOpen).toBe(false);
    for (const used of [
      session.call('probe__read', key('a')),
      session.list(),
      session.tools.get('probe__read')?.(key('a')),
    ])
      await expect(used).rejects.toMatchObject({ code: 'unknown_session' });
    await session.close();
  });

  it('leaves a call that waits, which is made once it was approved', async () => {
    const { open, decide, runs, done, context } = await shop({ policy: asking() });
    const session = await open({ scope: 'desk' });
    const { waiting, runId } = await session.call('probe__write', key('w'));
    expect(waiting).toEqual({ runId, for: 'approval' });
    await session.close();
    await decide('approve');
    const events = await collect(await runs.resume(runId, { ...alice, context }));
    expect(eventsOf(events, 'tool-result')).toMatchObject([
      { record: { status: 'succeeded', result: 'w done' } },
    ]);
    expect(done).toEqual(['w']);
  });

  it('leaves the call of an instance that only this process has, too', async () => {
    const cart = new Cart('k1');
    const { open, decide, runs } = await shop({ policy: asking() });
    const session = await open({ context: { act: () => cart } });
    await session.call('probe__cart', key('a'));
    const { runId } = await session.call('cart_k1_add', { item: 'tea' });
    await session.close();
    await decide('approve');
    await collect(await runs.resume(runId, alice));
    expect(cart.list()).toBe('tea');
  });

  it('is closed when the application shuts down', async () => {
    const { module, open } = await shop();
    const session = await open();
    await module.close();
    expect(session.isOpen).toBe(false);
    await expect(open()).rejects.toThrow('The application is shutting down.');
  });
});

describe('sessions', () => {
  it('are found by their id for their own actor and tenant alone', async () => {
    const { open, loop } = await shop();
    const session = await open();
    expect(loop.findSession(session.sessionId, alice)).toBe(session);
    const strangers = [
      bob,
      { ...alice, tenant: 'globex' },
      { ...alice, actor: { id: 'bob' } },
      { ...alice, actor: {} },
    ];
    const messages = strangers.map((who) =>
      messageOf(() => loop.findSession(session.sessionId, who)),
    );
    expect(new Set([...messages, messageOf(() => loop.findSession('nothing', alice))])).toEqual(
      new Set(['You have no open session of that id.']),
    );
    await session.close();
    expect(messageOf(() => loop.findSession(session.sessionId, alice))).toBe(
      'You have no open session of that id.',
    );
  });

  it('keep the instances of two tenants apart, whatever ids a client sends', async () => {
    const { open } = await shop();
    const [ours, theirs] = [
      await open({ context: { act: customerOf } }),
      await open({ ...bob, context: { act: customerOf } }),
    ];
    await theirs.call('probe__customer', key('c-9'));
    const unknown = await ours.call('customer_c-8_getAverageSpend');
    const foreign = await ours.call('customer_c-9_getAverageSpend');
    expect(foreign.record.error?.code).toBe('unknown_tool');
    expect(JSON.stringify(foreign.content).replaceAll('c-9', 'c-8')).toBe(
      JSON.stringify(unknown.content),
    );
    expect((await theirs.call('customer_c-9_getAverageSpend')).ui).toBe('globex:c-9:ann');
  });

  it('are refused beyond the limits of their actor and their tenant, and say what to do', async () => {
    const { open } = await shop({ sessions: { perTenant: 3, perActor: 2 } });
    const own = [await open(), await open()];
    await expect(open()).rejects.toMatchObject({
      code: 'too_many_sessions',
      message: expect.stringContaining('The actor has 2 open sessions'),
    });
    await open({ actor: { id: 'mia' } });
    await expect(open({ actor: { id: 'ben' } })).rejects.toThrow(
      'The tenant has 3 open sessions, and may have 3. Close some of them',
    );
    await open(bob);
    await own[0]?.close();
    await open();
  });

  it('are counted when they are opened at once', async () => {
    const { open } = await shop({ sessions: { perActor: 2 } });
    const opened = await Promise.allSettled(
      Array.from({ length: 10 }, () => open({ scope: 'desk' })),
    );
    expect(opened.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
  });

  it('are closed when they were not used for the idle time, but not while a call is under way', async () => {
    const { open } = await shop({ sessions: { idleMs: 150 } });
    const [idle, busy] = [await open(), await open({ context: { act: slowly } })];
    const call = busy.call('probe__read', key('slow'));
    await wait(300);
    expect([idle.isOpen, busy.isOpen]).toEqual([false, true]);
    await call;
    expect(busy.isOpen).toBe(true);
    await wait(350);
    expect(busy.isOpen).toBe(false);
  });

  it('are closed fifteen minutes after their last call, unless the application says otherwise', async () => {
    const { open } = await shop();
    jest.useFakeTimers({
      doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate'],
    });
    try {
      const session = await open();
      jest.advanceTimersByTime(14 * 60_000);
      await session.call('probe__read', key('a'));
      jest.advanceTimersByTime(899_000);
      expect(session.isOpen).toBe(true);
      jest.advanceTimersByTime(2_000);
      expect(session.isOpen).toBe(false);
      await expect(session.call('probe__read', key('a'))).rejects.toThrow('The session is closed.');
    } finally {
      jest.useRealTimers();
    }
  });

  it.each([
    [{ perTenant: 0 }, 'Its perTenant is 0'],
    [{ idleMs: Number.POSITIVE_INFINITY }, 'Its idleMs is Infinity'],
    [{ perActors: 3 }, 'perActors'],
  ])(
    'keep the application from starting with options that cannot be: %j',
    async (sessions, problem) => {
      await expect(shop({ sessions: sessions as SessionOptions })).rejects.toThrow(problem);
    },
  );
});

function messageOf(work: () => unknown): string {
  try {
    work();
    return 'It did not throw.';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
