import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { ActorDirectory, type Decision, type Policy, type RunError, tool } from '@toolloop/core';
import { PolicyEngine } from '@toolloop/core/policy';
import { MemoryPolicyStore, PolicyStore } from '@toolloop/core/stores';
import { StorageUnavailableError } from '@toolloop/protocol';
import { call, calls, eventsOf, expectTranscriptValid, text, troubled } from '@toolloop/testing';
import {
  mallory,
  OPEN,
  operatedShop,
  ops,
  opsOfGlobex,
  root,
} from '../../fixtures/operated-shop.js';
import { resultsIn } from '../../fixtures/played-run.js';
import { Cart } from '../../fixtures/shop.js';
import { ask } from '../../fixtures/shop.module.js';

const read = call('probe__read', { key: 'r' });
const write = call('probe__write', { key: 'w' });
const WITHOUT_WRITES: Policy = { ...OPEN, version: 'no writes', deny: ['probe__write'] };
const first = { expected: 0, reason: 'Ticket 1.' };

const asking = (rule: object): Policy => ({
  ...OPEN,
  requireApproval: [{ tools: ['probe__write'], ...rule }],
});
const matching = (key: object): Policy => asking({ arguments: { properties: { key } } });

/** Tried by backtracking, it takes longer than any test for a few dozen characters. */
const HOSTILE = { type: 'string', pattern: '^(?=a)(a+)+$' } as const;

const globex = { actor: { id: 'bob' }, tenant: 'globex' };

describe('a policy that was put', () => {
  it('is in force from the next decision on, in this process and in every other', async () => {
    const store = new MemoryPolicyStore();
    const one = await operatedShop([calls(write), text('Done.')], { store });
    const other = await operatedShop([calls(write), text('Done.'), calls(write), text('Done.')], {
      store,
    });
    expect((await other.run()).result.toolCalls).toMatchObject([{ status: 'succeeded' }]);
    await one.policies.put(WITHOUT_WRITES, root, { ...first, everywhere: true });
    for (const shop of [one, other])
      expect((await shop.run()).result.toolCalls).toMatchObject([
        { status: 'denied', error: { code: 'policy_denied' } },
      ]);
  });

  it('holds for the run that is under way: what it denies goes, and what it allows anew comes at the end', async () => {
    const script = [
      calls(read),
      calls(write),
      calls(read),
      calls(call('probe__send', { key: 's' })),
      text('Done.'),
    ];
    const { policies, run } = await operatedShop(script, {
      policy: { ...OPEN, allow: ['probe__*'], deny: ['probe__send'] },
    });
    const put = (policy: Policy, expected: number) =>
      policies.put(policy, root, { reason: 'x', expected, everywhere: true });
    const after = [
      () =>
        put(
          { ...OPEN, version: '2', allow: ['probe__*'], deny: ['probe__write', 'probe__send'] },
          0,
        ),
      () => put({ ...OPEN, version: '3', allow: ['probe__*'] }, 1),
    ];
    const offered: (readonly string[])[] = [];
    const { result, events } = await run({
      prepareStep: ({ tools }) => {
        offered.push(tools.map(({ id }) => id));
        return {};
      },
      context: {
        act: async (key: string) => {
          await after.shift()?.();
          return key;
        },
      },
    });
    const [begun = []] = offered;
    const without = begun.filter((id) => id !== 'probe__write');
    expect(begun).toContain('probe__write');
    expect(offered).toEqual([
      begun,
      without,
      without,
      [...without, 'probe__write', 'probe__send'],
      [...without, 'probe__write', 'probe__send'],
    ]);
    expect(result.toolCalls).toMatchObject([
      { status: 'succeeded' },
      { status: 'failed', error: { code: 'tool_gone' } },
      { status: 'succeeded' },
      { status: 'succeeded', decision: { policyVersion: '3' } },
    ]);
    expect(eventsOf(events, 'tools-removed')).toMatchObject([
      { step: 2, tools: ['probe__write'], reason: 'policy' },
    ]);
    expect(eventsOf(events, 'tools-injected')).toMatchObject([
      { step: 4, tools: ['probe__write', 'probe__send'], provider: 'policy' },
    ]);
    expectTranscriptValid(result.messages);
  });

  it('is kept with its author and its reason, and nothing that a client says changes whose it is', async () => {
    const { policies } = await operatedShop();
    const forged = { ...first, author: 'mia', number: 7, everywhere: true } as typeof first;
    const put = await policies.put(WITHOUT_WRITES, root, forged);
    expect(put).toMatchObject({
      number: 1,
      author: 'root',
      reason: 'Ticket 1.',
      policies: [WITHOUT_WRITES],
    });
    expect(await policies.get(1, root, { everywhere: true })).toEqual(put);
    expect(await policies.versions(root, { everywhere: true })).toEqual([put]);
  });

  it('is refused whole with all its findings, with suggestions, and the one before stays', async () => {
    const { policies, engine } = await operatedShop();
    const wrong: Policy = {
      allow: ['probe__reed'],
      deny: ['crm_search'],
      requireApproval: [{ tools: ['probe__write'], arguments: { required: ['kee'] } }],
    };
    const refused = policies.put(wrong, root, { ...first, everywhere: true });
    await expect(refused).rejects.toMatchObject({ code: 'configuration', findings: { length: 3 } });
    await expect(refused).rejects.toThrow('Did you mean "probe__read"');
    await expect(refused).rejects.toThrow('Did you mean "key"?');
    await expect(
      policies.put({ alow: ['*'] } as never, root, { ...first, everywhere: true }),
    ).rejects.toThrow('policy');
    await expect(policies.put([], root, { ...first, everywhere: true })).rejects.toMatchObject({
      code: 'invalid',
    });
    await expect(
      policies.put(null as never, root, { ...first, everywhere: true }),
    ).rejects.toMatchObject({ findings: { length: 1 } });
    expect(engine.policies).toMatchObject([{ version: 'open' }]);
    expect(await policies.versions(root, { everywhere: true })).toEqual([]);
  });

  it('cannot block the process with a pattern, and nothing in it expires at a time that is no date', async () => {
    const { policies } = await operatedShop();
    const put = (policy: Policy) => policies.put(policy, opsOfGlobex, first);
    await expect(put(matching(HOSTILE))).rejects.toThrow('could block the process');
    await expect(put(asking({ expiresAfterMs: 1e300 }))).rejects.toMatchObject({
      code: 'configuration',
    });
    await expect(put(matching({ type: 'string', pattern: '^(a+)+$' }))).resolves.toMatchObject({
      number: 1,
    });
  });

  it('does not block the process with a pattern either where the store of a tenant has had it before', async () => {
    const { engine, run } = await operatedShop([
      calls(call('probe__write', { key: `${'a'.repeat(40)}!` })),
      text('Done.'),
    ]);
    const version = {
      number: 1,
      tenant: 'acme',
      policies: [matching(HOSTILE)],
      author: 'ops',
      reason: 'x',
      at: '2026-01-01T00:00:00.000Z',
    };
    engine.apply({ revision: 1, versions: [version], stops: [] });
    // what is not tried counts as met
    expect((await run()).result).toMatchObject({ finishReason: 'waiting' });
  });

  it('is not what its object becomes afterwards', async () => {
    const { policies, engine } = await operatedShop();
    const given = { ...WITHOUT_WRITES, deny: ['probe__write'] };
    await policies.put(given, root, { ...first, everywhere: true });
    given.deny.length = 0;
    expect(engine.policies).toMatchObject([{ deny: ['probe__write'] }]);
  });

  it('wins over another that was put at the same time, which is told which one', async () => {
    const store = new MemoryPolicyStore();
    const shops = [await operatedShop([], { store }), await operatedShop([], { store })];
    const puts = await Promise.allSettled(
      shops.map(({ policies }, index) =>
        policies.put({ ...OPEN, version: `${index}` }, root, { ...first, everywhere: true }),
      ),
    );
    expect(puts.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect(puts.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: {
        name: 'PolicyError',
        code: 'conflict',
        message: 'The newest version is 1, by root, not 0. Look at it, and expect that one.',
      },
    });
  });

  it('narrows the application where it is of a tenant, for that tenant alone', async () => {
    const shop = await operatedShop([calls(write), text('Done.'), calls(write), text('Done.')]);
    await shop.policies.put({ ...OPEN, version: 'acme', deny: ['probe__write'] }, ops, first);
    expect((await shop.run()).result.toolCalls).toMatchObject([{ status: 'denied' }]);
    expect((await shop.run(globex)).result.toolCalls).toMatchObject([{ status: 'succeeded' }]);
  });

  it('lets in nothing that the application denies where it is of a tenant, and vouches for nothing', async () => {
    const shop = await operatedShop([calls(write), text('Done.')], { policy: WITHOUT_WRITES });
    await shop.policies.put({ ...OPEN, version: 'acme' }, ops, first);
    expect((await shop.run()).result.toolCalls).toMatchObject([{ status: 'denied' }]);
    const vouching = { ...OPEN, vouched: { probe__read: { egress: false } } };
    await expect(shop.policies.put(vouching, ops, { expected: 1, reason: 'x' })).rejects.toThrow(
      'only the policy of the application can do',
    );
  });

  it('cannot be put where the application decides by an engine of its own, whose calls can be stopped all the same', async () => {
    class Own extends PolicyEngine {
      override decide(): Decision {
        return { kind: 'allow', rule: 'own', reason: 'Always.', policyVersion: 'own' };
      }
    }
    const { module, policies, run } = await operatedShop(
      [calls(read), text('Done.'), calls(read), text('Done.')],
      {
        policy: [],
        providers: [{ provide: PolicyEngine, useClass: Own }],
      },
    );
    await expect(policies.put(OPEN, root, { ...first, everywhere: true })).rejects.toThrow(
      'its own PolicyEngine',
    );
    expect((await run()).result.toolCalls).toMatchObject([{ status: 'succeeded' }]);
    await policies.stop({ tool: 'probe__read' }, ops, { reason: 'x' });
    expect((await run()).result.toolCalls).toMatchObject([{ status: 'denied' }]);
    await module.close();
  });
});

describe('the history of a policy', () => {
  it('goes back to an earlier version by a new one, and to what the application started with', async () => {
    const { policies, engine } = await operatedShop();
    const everywhere = { everywhere: true };
    await policies.put(WITHOUT_WRITES, root, { ...first, ...everywhere });
    await policies.put({ ...OPEN, version: '2' }, root, {
      expected: 1,
      reason: 'Open again.',
      ...everywhere,
    });
    expect(
      await policies.rollback(1, root, { expected: 2, reason: 'Too early.', ...everywhere }),
    ).toMatchObject({
      number: 3,
      rollbackOf: 1,
      author: 'root',
    });
    expect(engine.policies).toEqual([WITHOUT_WRITES]);
    await policies.rollback(0, root, { expected: 3, reason: 'All of it.', ...everywhere });
    expect(engine.policies).toEqual([OPEN]);
    expect((await policies.versions(root, everywhere)).map(({ number }) => number)).toEqual([
      4, 3, 2, 1,
    ]);
    expect(
      (await policies.versions(root, { ...everywhere, limit: 1, before: 3 })).map(
        ({ number }) => number,
      ),
    ).toEqual([2]);
    expect(await policies.get(0, root, everywhere)).toMatchObject({ number: 0, policies: [OPEN] });
  });

  it('does not go back to a version that names tools which are gone, and says which', async () => {
    const store = new MemoryPolicyStore();
    await store.add({
      number: 1,
      policies: [{ allow: ['probe__gone', 'crm__left'] }],
      author: 'x',
      reason: 'x',
      at: '',
    });
    await store.add({ number: 2, policies: [OPEN], author: 'x', reason: 'x', at: '' });
    const { policies, engine } = await operatedShop([], { store });
    const refused = policies.rollback(1, root, { expected: 2, reason: 'x', everywhere: true });
    await expect(refused).rejects.toMatchObject({
      findings: [
        { problem: expect.stringContaining('probe__gone') },
        { problem: expect.stringContaining('crm__left') },
      ],
    });
    expect(engine.policies).toEqual([OPEN]);
    await expect(
      policies.rollback(9, root, { expected: 2, reason: 'x', everywhere: true }),
    ).rejects.toMatchObject({ code: 'not_found' });
  });

  it('starts a process whose tools are fewer than those that the newest version names, which holds for the others', async () => {
    const store = new MemoryPolicyStore();
    await store.add({
      number: 1,
      policies: [{ ...OPEN, allow: ['probe__read', 'probe__gone'] }],
      author: 'x',
      reason: 'x',
      at: '',
    });
    const shop = await operatedShop([calls(read, write), text('Done.')], { store });
    expect((await shop.run()).result.toolCalls).toMatchObject([
      { status: 'succeeded' },
      { status: 'denied' },
    ]);
  });

  it('tells the differences between two versions', async () => {
    const { policies } = await operatedShop();
    const next: Policy = {
      ...OPEN,
      version: '2',
      deny: ['probe__write'],
      tenants: { 'a/b': { deny: ['probe__send'] } },
      flow: 'taint',
    };
    await policies.put(next, root, { ...first, everywhere: true });
    await policies.put({ ...next, deny: ['probe__read'], tenants: {} }, root, {
      expected: 1,
      reason: 'x',
      everywhere: true,
    });
    expect(await policies.diff(0, 1, root, { everywhere: true })).toEqual([
      { at: '/version', before: 'open', after: '2' },
      { at: '/flow', before: 'off', after: 'taint' },
      { at: '/deny', after: ['probe__write'] },
      { at: '/tenants', after: { 'a/b': { deny: ['probe__send'] } } },
    ]);
    expect(await policies.diff(1, 2, root, { everywhere: true })).toEqual([
      { at: '/deny', before: 'probe__write' },
      { at: '/deny', after: 'probe__read' },
      { at: '/tenants/a~1b', before: { deny: ['probe__send'] } },
    ]);
    await expect(policies.diff(1, 3, root, { everywhere: true })).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  it.each<[string, object]>([
    ['a version that is none', { expected: -1, reason: 'x' }],
    ['no version', { reason: 'x' }],
    ['no reason', { expected: 0, reason: ' ' }],
    ['a tenant that is none', { expected: 0, reason: 'x', tenant: '' }],
  ])('takes nothing with %s', async (_, put) => {
    const { policies } = await operatedShop();
    await expect(policies.put(OPEN, root, put as never)).rejects.toMatchObject({
      name: 'PolicyError',
      code: 'invalid',
    });
  });
});

describe('the operators of policies', () => {
  it('are none until the application says so, whatever a client says of itself', async () => {
    const { policies } = await operatedShop();
    const refusal = { name: 'OperatorError', action: 'policy' };
    await expect(policies.put(OPEN, mallory, first)).rejects.toMatchObject(refusal);
    await expect(policies.versions(mallory)).rejects.toMatchObject(refusal);
    await expect(policies.rollback(0, mallory, first)).rejects.toMatchObject(refusal);
    await expect(policies.diff(0, 0, mallory)).rejects.toMatchObject(refusal);
    await expect(policies.get(0, mallory)).rejects.toMatchObject(refusal);
    await expect(policies.stop({}, mallory, first)).rejects.toMatchObject({
      name: 'OperatorError',
      action: 'killSwitch',
    });
    await expect(policies.stops(mallory)).rejects.toMatchObject({
      name: 'OperatorError',
      action: 'killSwitch',
    });
  });

  it('may act in their own tenant, and elsewhere only where the action was given to them for all', async () => {
    const { policies } = await operatedShop();
    await expect(policies.put(OPEN, ops, { ...first, everywhere: true })).rejects.toMatchObject({
      name: 'OperatorError',
    });
    await expect(policies.put(OPEN, ops, { ...first, tenant: 'globex' })).rejects.toMatchObject({
      name: 'OperatorError',
    });
    await policies.put(OPEN, opsOfGlobex, first);
    expect(await policies.versions(ops)).toEqual([]);
    expect(await policies.versions(root, { tenant: 'globex' })).toMatchObject([
      { tenant: 'globex', author: 'ops' },
    ]);
  });

  it('leave each use in the audit, and each attempt', async () => {
    const { policies, audit } = await operatedShop();
    await policies.put(OPEN, ops, first);
    await policies.put(OPEN, root, { ...first, everywhere: true });
    await policies.versions(mallory).catch(() => undefined);
    const entries = await audit.read('acme', { from: 1, limit: 10 });
    expect(entries).toMatchObject([
      {
        kind: 'operator',
        action: 'policy',
        granted: true,
        actorId: 'ops',
        details: { do: 'put', version: 1, reason: 'Ticket 1.' },
      },
      {
        kind: 'operator',
        action: 'policy',
        granted: true,
        actorId: 'root',
        details: { do: 'put', everywhere: true },
      },
      { kind: 'operator', action: 'policy', granted: false, actorId: 'mallory' },
    ]);
  });
});

describe('a store of policies', () => {
  it('keeps a version once, though its answer is lost', async () => {
    const store = troubled(new MemoryPolicyStore(), {
      method: 'add',
      at: 1,
      isDone: true,
      answer: () => Promise.reject(new StorageUnavailableError()),
    });
    const { policies } = await operatedShop([], { store });
    expect(await policies.put(OPEN, root, { ...first, everywhere: true })).toMatchObject({
      number: 1,
    });
    expect(await policies.versions(root, { everywhere: true })).toHaveLength(1);
  });

  it('keeps the application from starting where it fails, since what is in force is unknown', async () => {
    const store = troubled(new MemoryPolicyStore(), {
      method: 'read',
      answer: () => Promise.reject(new Error('No table.')),
    });
    await expect(operatedShop([], { store })).rejects.toMatchObject({
      name: 'StorageUnavailableError',
      cause: new Error('No table.'),
    });
  });
});

type Stored = Awaited<ReturnType<PolicyStore['read']>>;

/** A store with a version that another release has put. */
class LaterStore extends MemoryPolicyStore {
  constructor(private readonly version: Stored['versions'][number]) {
    super();
  }

  override async read(since: number): Promise<Stored> {
    return { ...(await super.read(since)), revision: 1, versions: [this.version] };
  }
}

describe('a stored policy that this release cannot read', () => {
  it.each([
    ['policy 1 of acme', { tenant: 'acme' }],
    ['policy 1', {}],
  ])('is named by its number and its tenant where the application starts: %s', async (at, of) => {
    const policies = [JSON.parse(JSON.stringify({ ...OPEN, flow: 'tomorrow' })) as Policy];
    const put = { number: 1, policies, author: 'ops', reason: '', at: new Date(0).toISOString() };
    const unreadable = new LaterStore({ ...put, ...of });
    await expect(operatedShop([], { store: unreadable })).rejects.toMatchObject({
      name: 'ConfigurationError',
      findings: [{ at: `${at}/flow` }],
    });
  });
});

/** A store that other processes share, whose signs the test tells by hand. */
class RemoteStore extends MemoryPolicyStore {
  private told: Parameters<PolicyStore['watch']>[0] = () => undefined;

  override watch(told: Parameters<PolicyStore['watch']>[0]): Promise<() => Promise<void>> {
    this.told = told;
    this.sign(60_000);
    return Promise.resolve(() => Promise.resolve());
  }

  sign(forMs: number, revision?: number): void {
    void this.read(0).then((state) => this.told({ revision: revision ?? state.revision, forMs }));
  }
}

describe('a process that does not know what is in force', () => {
  it('makes no call but reads of trusted tools, tells the model nothing, and is not ready, until it knows again', async () => {
    const store = new RemoteStore();
    const script = [calls(read), calls(write), text('Done.')];
    const shop = await operatedShop(script, { store });
    expect(shop.policies.isReady).toBe(true);
    store.sign(-1);
    await Promise.resolve();
    const result = await shop.run().then(
      (played) => played.result,
      (error: RunError) => error.result,
    );
    expect(result).toMatchObject({ finishReason: 'error', error: { code: 'storage_unavailable' } });
    expect(resultsIn(result.messages)).toEqual(['r', 'The run ended before this call was made.']);
    expect(shop.model.requests).toHaveLength(2);
    expect(shop.policies.isReady).toBe(false);
    store.sign(60_000);
    await Promise.resolve();
    await Promise.resolve();
    expect(shop.policies.isReady).toBe(true);
    const resumed = await shop.resume(result.runId);
    expect(resumed).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded' }, { status: 'succeeded' }],
    });
  });

  it('relies on no sign of a change that it has not read', async () => {
    const store = new RemoteStore();
    const { policies, engine } = await operatedShop([], { store });
    store.sign(-1);
    await Promise.resolve();
    store.sign(60_000, 99);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(policies.isReady).toBe(false);
    expect(engine.storeRevision).toBe(0);
  });

  it('puts nothing in force that this release does not understand', async () => {
    const store = new RemoteStore();
    const { policies, engine } = await operatedShop([], { store });
    await store.add({
      number: 1,
      policies: [{ ...OPEN, onlyOnMondays: true } as Policy],
      author: 'x',
      reason: 'x',
      at: '',
    });
    store.sign(60_000);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(engine.policies).toEqual([OPEN]);
    store.sign(-1, 0);
    await new Promise((resolve) => setTimeout(resolve, 20));
    store.sign(60_000);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(policies.isReady).toBe(false);
  });
});

@Injectable()
class Staff extends ActorDirectory {
  override find(id: string): Promise<unknown> {
    return Promise.resolve({ id });
  }
}

const asked = (given: object, ...tools: string[]): Policy => ({
  ...OPEN,
  requireApproval: [{ tools, arguments: given }],
});
const writeOf = (key: string) => calls(call('probe__write', { key }));

describe('a replay of the policies under which a run was made', () => {
  const pay = tool({
    id: 'bank__pay',
    description: 'Pays.',
    effect: 'state_change',
    reveal: 'all',
    input: {
      type: 'object',
      properties: { amount: { type: 'integer', default: 500 }, note: { type: 'string' } },
      additionalProperties: false,
    },
    execute: () => 'paid',
  });
  it.each<[string, Policy, readonly ReturnType<typeof call>[]]>([
    [
      'a default',
      asked({ properties: { amount: { maximum: 100 } } }, 'bank__pay'),
      [call('bank__pay', {})],
    ],
    [
      'a null that means nothing',
      asked({ required: ['note'] }, 'bank__pay'),
      [call('bank__pay', { amount: 1, note: null })],
    ],
    [
      'those that stand within the arguments of a surface',
      asked({ properties: { item: { const: 'tea' } }, required: ['item'] }, 'cart_*_add'),
      [call('probe__cart', { key: 'k1' }), call('cart__add', { id: 'k1', args: { item: 'tea' } })],
    ],
  ])('takes the arguments as their call did: %s', async (_, policy, made) => {
    const waits = {
      ...policy,
      requireApproval: [...(policy.requireApproval ?? []), { tools: ['probe__write'] }],
    };
    const script = [...made.map((one) => calls(one)), calls(call('probe__write', { key: 'last' }))];
    const shop = await operatedShop(script, {
      policy: waits,
      tools: [pay],
      surface: 'grouped',
      providers: [Staff],
    });
    const { result } = await shop.run({
      context: { act: (key: string) => (key === 'k1' ? new Cart(key) : key) },
    });
    expect(result.finishReason).toBe('waiting');
    const { runs } = await shop.policies.replay(0, [result.runId], root, { everywhere: true });
    expect(runs).toEqual([
      { runId: result.runId, decided: result.toolCalls.length, changed: [], skipped: [] },
    ]);
  });

  it('counts no call for budgets that a person did not approve', async () => {
    const policy: Policy = {
      ...OPEN,
      requireApproval: [{ tools: ['probe__write'] }],
      runBudgets: [{ tools: ['probe__*'], calls: 1 }],
    };
    const shop = await operatedShop([writeOf('denied'), writeOf('last')], {
      policy,
      providers: [Staff],
    });
    const { result } = await shop.run();
    const [request] = await shop.approvals.list(ask());
    await shop.approvals.decide({ approvalId: request?.approvalId ?? '', decision: 'deny' }, ask());
    expect(await shop.resume(result.runId)).toMatchObject({ finishReason: 'waiting' });
    const { runs } = await shop.policies.replay(0, [result.runId], root, { everywhere: true });
    expect(runs).toMatchObject([{ decided: 2, changed: [] }]);
  });
});
