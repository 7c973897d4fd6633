import { describe, expect, it } from '@jest/globals';
import {
  PendingService,
  type InvalidRequestError,
  type LoopEvent,
  LoopEventSink,
  policies,
  RunError,
  type Tool,
  type ToolCallContext,
  ToolLoopService,
  ToolSource,
} from '@toolloop/core';
import type { CallRequest, ToolOrigin } from '@toolloop/core/contracts';
import { RunService } from '@toolloop/core/runs';
import { AuditStore } from '@toolloop/core/stores';
import { ScriptedModel, collect, eventsOf, expectRunEndsOnce } from '@toolloop/testing';
import { toolOf } from '../../tools/tools.js';
import { alice, asking } from '../../fixtures/approval.shop.js';
import { openModule, type ShopOptions } from '../../fixtures/shop.module.js';

const bob = { actor: { id: 'bob' }, tenant: 'globex' };

/** A shop whose model is never asked. */
async function shop(options: ShopOptions = {}) {
  const module = await openModule(new ScriptedModel([]), options);
  const loop: ToolLoopService = module.get(ToolLoopService);
  const runs: RunService = module.get(RunService);
  const done: string[] = [];
  const context = { act: (key: string) => (done.push(key), `${key} done`) };
  return {
    module,
    loop,
    runs,
    done,
    context,
    call: (name: string, args: object = {}, more: Partial<CallRequest> = {}) =>
      loop.call({ tool: name, args: args as never, ...alice, context, ...more }),
    decide: async (decision: 'approve' | 'deny') => {
      const approvals: PendingService = module.get(PendingService);
      const [open] = await approvals.list(alice);
      return approvals.decide(
        { approvalId: open?.approvalId ?? '', decision, reason: 'I say so.' },
        alice,
      );
    },
  };
}

class Noted extends LoopEventSink {
  readonly events: LoopEvent[] = [];

  override write(event: LoopEvent): void {
    this.events.push(event);
  }
}

const never = () => new Promise(() => undefined);

const untilAborted = (_: string, { signal }: ToolCallContext) =>
  new Promise((_resolve, reject) =>
    signal.addEventListener('abort', () => reject(new Error('told')), { once: true }),
  );

describe('one call without a model', () => {
  it('gives its record, what a UI may show, and the tools that the result brought', async () => {
    const { call } = await shop();
    const { record, ui, injectedTools, waiting, content } = await call('crm__searchCustomers', {
      name: 'ann',
    });
    expect(record).toMatchObject({
      declaredId: 'crm__searchCustomers',
      status: 'succeeded',
      step: 1,
      index: 0,
      args: { name: 'ann' },
    });
    expect(ui).toEqual([{ id: 'c-1', name: 'ann' }]);
    expect(injectedTools.map(({ id }) => id)).toEqual([
      'customer_c-1_getAverageSpend',
      'customer_c-1_getRecentOrders',
    ]);
    expect(waiting).toBeUndefined();
    expect(content).toContain('ann@acme.example');
  });

  it('leaves out of its JSON what the model alone may see', async () => {
    const { call } = await shop();
    const result = await call('crm__searchCustomers', { name: 'ann' });
    const sent: unknown = JSON.parse(JSON.stringify(result));
    expect(sent).toMatchObject({
      runId: result.runId,
      ui: [{ id: 'c-1' }],
      injectedTools: ['customer_c-1_getAverageSpend', 'customer_c-1_getRecentOrders'],
    });
    expect(JSON.stringify(sent)).not.toContain('ann@acme.example');
  });

  it.each([
    ['an unknown tool', 'crm__searchCustomer', {}, 'unknown_tool'],
    ['an argument that is missing', 'probe__read', {}, 'invalid_args'],
    ['an argument of another type', 'probe__read', { key: 5 }, 'invalid_args'],
    [
      "another tenant's name among the arguments",
      'probe__read',
      { key: 'a', tenant: 'globex' },
      'tenant_override',
    ],
    ['arguments that are a list', 'probe__read', ['a'], 'invalid_args'],
    ['arguments beyond their size', 'probe__read', { key: 'a'.repeat(9_000) }, 'invalid_args'],
  ])(
    'tells what is wrong with %s in its record, and calls nothing',
    async (_, name, args, code) => {
      const { call, done } = await shop();
      const { record, ui } = await call(name, args);
      expect(record).toMatchObject({ error: { code } });
      expect(ui).toBeUndefined();
      expect(done).toEqual([]);
    },
  );

  it.each([
    ['no tool', { tool: undefined }, 'The call names no tool.'],
    ['a tool that is no text', { tool: { id: 'probe__read' } }, 'The call names no tool.'],
    [
      'arguments that JSON does not have',
      { args: { key: 5n } },
      'The arguments of the call cannot be written as JSON.',
    ],
    [
      'a number that JSON writes as null',
      { args: { filter: { amount: { gt: Infinity, lt: 99 } } } },
      'The arguments of the call cannot be written as JSON.',
    ],
    ['no tenant', { tenant: '' }, 'A run needs a tenant'],
    ['no actor', { actor: null }, 'A run needs an actor'],
  ])('is refused with %s', async (_, wrong, message) => {
    const { loop } = await shop();
    const refused: Promise<unknown> = loop.call({
      tool: 'probe__read',
      ...alice,
      ...wrong,
    } as never);
    await expect(refused).rejects.toThrow(message);
    await expect(refused).rejects.toMatchObject({
      code: 'invalid_request',
    } satisfies Partial<InvalidRequestError>);
  });

  it('is refused with an option of a run that asks a model', async () => {
    const { loop } = await shop();
    await expect(
      loop.call({ tool: 'probe__read', ...alice, prompt: 'Go on.' } as never),
    ).rejects.toThrow('There is no option "prompt".');
  });

  it('reads to a denied caller like a call of a tool that does not exist', async () => {
    const { call, done } = await shop({ policy: { version: '1', allow: ['crm__*'] } });
    const [denied, unknown] = [
      await call('probe__read', { key: 'a' }),
      await call('probe__nothing', { key: 'a' }),
    ];
    expect(denied.record.status).toBe('denied');
    expect(JSON.stringify(denied.content).replaceAll('probe__read', 'probe__nothing')).toBe(
      JSON.stringify(unknown.content),
    );
    expect(done).toEqual([]);
  });

  it('is narrowed by the policy and the selection of its request, which widen nothing', async () => {
    const { call } = await shop({ policy: { version: '1', allow: ['probe__read'], flow: 'off' } });
    expect(
      (await call('probe__write', { key: 'a' }, { policy: policies.allowAll })).record.status,
    ).toBe('denied');
    expect((await call('probe__read', { key: 'a' }, { tools: ['crm__*'] })).record).toMatchObject({
      error: { code: 'unknown_tool' },
    });
    expect((await call('probe__read', { key: 'a' })).record.status).toBe('succeeded');
  });

  it('counts its arguments as written by a model that has read untrusted and private content', async () => {
    const { call, done } = await shop({ policy: { version: '1', allow: ['*'], flow: 'trifecta' } });
    const { record, waiting, runId } = await call('probe__send', { key: 'x' });
    expect(record).toMatchObject({ status: 'waiting', decision: { rule: 'flow: trifecta' } });
    expect(waiting).toEqual({ runId, for: 'approval' });
    expect(done).toEqual([]);
    const traced = await call(
      'probe__send',
      { key: 'x' },
      { policy: { version: '2', allow: ['*'], flow: 'values' } },
    );
    expect(traced.waiting).toBeDefined();
  });

  it('invariant 15: asks before every change, unless the application says who wrote the arguments', async () => {
    const { call, done } = await shop({ policy: { version: '1', allow: ['*'] } });
    expect((await call('probe__write', { key: 'a' })).record).toMatchObject({
      status: 'waiting',
      decision: { rule: 'flow: taint' },
    });
    expect(
      (await call('probe__write', { key: 'a' }, { argsOrigin: 'outside' })).waiting,
    ).toBeDefined();
    expect((await call('probe__write', { key: 'b' }, { argsOrigin: 'actor' })).record.status).toBe(
      'succeeded',
    );
    expect(
      (await call('probe__send', { key: 'c' }, { argsOrigin: 'application' })).record.status,
    ).toBe('succeeded');
    expect(done).toEqual(['b', 'c']);
    await expect(
      call('probe__write', { key: 'a' }, { argsOrigin: 'model' as never }),
    ).rejects.toThrow('argsOrigin');
  });

  it('remembers who wrote the arguments while the call waits', async () => {
    const { call, runs, context, decide } = await shop({
      policy: { version: '1', allow: ['*'], requireApproval: [{ tools: ['probe__write'] }] },
    });
    const { runId, record } = await call('probe__write', { key: 'a' }, { argsOrigin: 'actor' });
    expect(record.decision?.rule).toBe('requireApproval[0]');
    await decide('approve');
    const events = await collect(await runs.resume(runId, { ...alice, context }));
    expect(eventsOf(events, 'tool-result')).toMatchObject([
      { record: { status: 'succeeded', decision: { rule: 'requireApproval[0]' } } },
    ]);
  });

  it('keeps two tenants apart whose calls are made at once', async () => {
    const { loop } = await shop();
    const seen: string[] = [];
    const act = async (key: string, { tenant, actor, runId }: ToolCallContext) => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 4));
      seen.push(runId);
      return [key, tenant, (actor as { id: string }).id].join(' ');
    };
    const made = Array.from({ length: 100 }, async (_, index) => {
      const who = index % 2 === 0 ? alice : bob;
      const { ui } = await loop.call({
        tool: 'probe__read',
        args: { key: `k${index}` },
        ...who,
        context: { act },
      });
      expect(ui).toBe(`k${index} ${who.tenant} ${who.actor.id}`);
    });
    await Promise.all(made);
    expect(new Set(seen).size).toBe(100);
  });

  it('has its effect once for a request id, whatever is sent again', async () => {
    const { call, done } = await shop();
    const [first, again] = [
      await call('probe__write', { key: 'w' }, { requestId: 'r1' }),
      await call('probe__write', { key: 'w' }, { requestId: 'r1' }),
    ];
    expect([first.record.status, again.record.status]).toEqual(['succeeded', 'succeeded']);
    expect((await call('probe__write', { key: 'other' }, { requestId: 'r1' })).record.status).toBe(
      'failed',
    );
    expect(done).toEqual(['w']);
  });

  it('tells sinks and hooks the events of a run, each once', async () => {
    const sink = new Noted();
    const { call } = await shop({ providers: [{ provide: 'sink', useValue: sink }] });
    const told: string[] = [];
    const hooks = {
      onToolStart: () => void told.push('start'),
      onToolEnd: () => void told.push('end'),
    };
    const { runId } = await call('probe__read', { key: 'a' }, { hooks });
    expect(sink.events.map(({ type }) => type)).toEqual([
      'run-start',
      'step-start',
      'tool-call',
      'tool-start',
      'tool-result',
      'step-end',
      'run-end',
    ]);
    expect(sink.events.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(new Set(sink.events.map((event) => event.runId))).toEqual(new Set([runId]));
    expectRunEndsOnce(sink.events);
    expect(told).toEqual(['start', 'end']);
  });

  it('rejects once it is aborted, and its tool is told', async () => {
    const { call } = await shop();
    const controller = new AbortController();
    const act = untilAborted;
    setTimeout(() => controller.abort(), 20);
    const made = call('probe__read', { key: 'a' }, { context: { act }, signal: controller.signal });
    await expect(made).rejects.toThrow(RunError);
    await expect(made).rejects.toMatchObject({
      result: { finishReason: 'aborted', toolCalls: [{ error: { code: 'aborted' } }] },
    });
  });

  it('rejects once its time is up', async () => {
    const { call } = await shop();
    const act = never;
    const { record } = await call(
      'probe__read',
      { key: 'a' },
      { context: { act }, limits: { toolCallMs: 30 } },
    );
    expect(record).toMatchObject({ error: { code: 'timeout' } });
    const waited = await call(
      'probe__write',
      { key: 'w' },
      { policy: asking(), approvals: 'wait', limits: { runMs: 30 } },
    );
    expect(waited.record).toMatchObject({ status: 'failed', error: { code: 'timeout' } });
  });

  it('is refused once the application shuts down', async () => {
    const { module, call } = await shop();
    await module.close();
    await expect(call('probe__read', { key: 'a' })).rejects.toThrow(
      'The application is shutting down.',
    );
  });

  it('is audited like the call of a model', async () => {
    const { module, call } = await shop({
      audit: { key: 'k'.repeat(32) },
      policy: { version: '1', allow: ['probe__write'], flow: 'off' },
    });
    const { runId } = await call('probe__write', { key: 'w' });
    await call('probe__read', { key: 'a' });
    const entries = await module.get(AuditStore).read('acme', { from: 1, limit: 100 });
    expect(entries).toMatchObject([
      { kind: 'decision', runId },
      { kind: 'outcome', runId },
      { kind: 'decision' },
      { kind: 'denied', code: 'policy_denied' },
    ]);
  });
});

describe('one call that needs a yes', () => {
  it('waits as a run of its own, which is resumed once it was approved, and asks no model', async () => {
    const { call, decide, runs, done, context } = await shop({ policy: asking() });
    const { runId, waiting, record, content } = await call('probe__write', { key: 'w' });
    expect([record.status, waiting, content]).toEqual([
      'waiting',
      { runId, for: 'approval' },
      undefined,
    ]);
    expect(await runs.get(runId, alice)).toMatchObject({ status: 'waiting' });
    await decide('approve');
    const events = await collect(await runs.resume(runId, { ...alice, context }));
    expectRunEndsOnce(events);
    expect(eventsOf(events, 'tool-result')).toMatchObject([
      { record: { status: 'succeeded', result: 'w done' } },
    ]);
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop', text: '' });
    expect(done).toEqual(['w']);
    expect(await runs.get(runId, alice)).toMatchObject({ status: 'ended', finishReason: 'stop' });
    await expect(runs.resume(runId, { ...alice, context })).rejects.toMatchObject({
      code: 'unknown_run',
    });
    expect(done).toEqual(['w']);
  });

  it('is not made where the answer is a no', async () => {
    const { call, decide, runs, done } = await shop({ policy: asking() });
    const { runId } = await call('probe__write', { key: 'w' });
    await decide('deny');
    const events = await collect(await runs.resume(runId, alice));
    expect(eventsOf(events, 'tool-result')).toMatchObject([
      { record: { status: 'denied', error: { code: 'approval_denied' } } },
    ]);
    expect(events.at(-1)).toMatchObject({ finishReason: 'stop' });
    expect(done).toEqual([]);
  });

  it('waits again where it is resumed too early, and belongs to its actor and tenant alone', async () => {
    const { call, runs, done } = await shop({ policy: asking() });
    const { runId } = await call('probe__write', { key: 'w' });
    for (const who of [bob, { ...alice, tenant: 'globex' }, { ...alice, actor: { id: 'bob' } }])
      await expect(runs.resume(runId, who)).rejects.toMatchObject({ code: 'unknown_run' });
    expect((await collect(await runs.resume(runId, alice))).at(-1)).toMatchObject({
      finishReason: 'waiting',
    });
    expect(done).toEqual([]);
  });

  it('is made under the policies under which it waited, as well as under those of the moment', async () => {
    const { call, decide, runs, done, context } = await shop({ policy: policies.allowAll });
    const { runId } = await call('probe__write', { key: 'w' }, { policy: asking() });
    await decide('approve');
    await collect(
      await runs.resume(runId, { ...alice, context, policy: { version: '2', allow: ['crm__*'] } }),
    );
    expect(done).toEqual([]);
  });

  it('is refused at once where no one is to be asked', async () => {
    const { call, done } = await shop({ policy: asking() });
    const { record, waiting } = await call('probe__write', { key: 'w' }, { approvals: 'deny' });
    expect([record.status, waiting, done]).toEqual(['denied', undefined, []]);
  });

  it('numbers the events of its parts in one row', async () => {
    const sink = new Noted();
    const { call, decide, runs, context } = await shop({
      policy: asking(),
      providers: [{ provide: 'sink', useValue: sink }],
    });
    const { runId } = await call('probe__write', { key: 'w' });
    await decide('approve');
    await collect(await runs.resume(runId, { ...alice, context }));
    expect(sink.events.map(({ sequence }) => sequence)).toEqual(
      sink.events.map((_, index) => index + 1),
    );
  });
});

/**
 * A source that says of its tool that it only reads, and whose tool asks for more than it may have.
 */
class Hostile extends ToolSource {
  readonly origin: ToolOrigin = { source: 'vendor', trusted: false };

  override tools(): readonly Tool[] {
    const one = toolOf({ id: 'vendor__read', origin: this.origin });
    const labels = { returns: 'trusted', reads: 'public', egress: false } as const;
    return [{ ...one, spec: { ...one.spec, effect: 'read_only', labels } }];
  }
}

describe('one call of a tool whose source is not trusted', () => {
  const providers = [{ provide: Symbol('vendor'), useClass: Hostile }];

  it('is not made by the leave of a glob', async () => {
    const { call } = await shop({ policy: { version: '1', allow: ['*'], flow: 'off' }, providers });
    expect((await call('vendor__read')).record.status).toBe('denied');
  });

  it('waits for a person whatever the tool says of itself, since its arguments may carry data out', async () => {
    const { call } = await shop({
      policy: { version: '1', allow: ['vendor__read'], flow: 'trifecta' },
      providers,
    });
    expect((await call('vendor__read')).waiting).toBeDefined();
  });
});

describe('a thousand calls', () => {
  it('leave no listener on the signal of their caller', async () => {
    const { call } = await shop();
    const { signal } = new AbortController();
    let listeners = 0;
    const [add, remove] = [
      signal.addEventListener.bind(signal),
      signal.removeEventListener.bind(signal),
    ];
    signal.addEventListener = (...given: Parameters<typeof add>) => (
      (listeners += 1),
      add(...given)
    );
    signal.removeEventListener = (...given: Parameters<typeof remove>) => (
      (listeners -= 1),
      remove(...given)
    );
    for (let index = 0; index < 1_000; index += 1)
      await call('probe__read', { key: 'a' }, { signal });
    expect(listeners).toBe(0);
  });
});
