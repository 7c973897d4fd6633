import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import {
  PendingService,
  OperatorError,
  subRunTool,
  ToolLoopService,
  type ToolLoopOptions,
} from '@toolloop/core';
import {
  PendingStore,
  AuditStore,
  MemoryPendingStore,
  MemoryRunLog,
  MemoryUsageStore,
  RunLog,
  type UsageBatch,
  UsageStore,
} from '@toolloop/core/stores';
import { type UsageReportQuery, UsageService } from '@toolloop/core/usage';
import { StorageUnavailableError } from '@toolloop/protocol';
import {
  call,
  calls,
  events,
  type ScriptedAnswer,
  ScriptedModel,
  type ScriptedTurn,
  text,
  troubled,
} from '@toolloop/testing';
import { UsageLedger } from '../../../src/plugins/usage/usage-ledger.js';
import { alice, asking, read, write } from '../../fixtures/approval.shop.js';
import { play, resultOf } from '../../fixtures/played-run.js';
import { ask, openModule, type ShopOptions } from '../../fixtures/shop.module.js';

const bob = { actor: { id: 'bob' }, tenant: 'globex' };
const otto = { actor: { id: 'otto' }, tenant: 'acme' };
const TODAY = new Date().toISOString().slice(0, 10);
const SINCE = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
const NONE = { calls: 0, answers: 0, inputTokens: 0, outputTokens: 0, usd: 0, unpricedAnswers: 0 };

type Rule = NonNullable<ToolLoopOptions['operators']>;
const ofAll: Rule = (actor) =>
  JSON.stringify(actor) === JSON.stringify(otto.actor) ? 'all' : false;
const ofOwn: Rule = (actor) => ofAll(actor, 'usage') === 'all';

/** An answer that has used so much, and calls tools or says something. */
function using(
  usage: { inputTokens: number; outputTokens: number; costUsd?: number },
  ...made: readonly { name: string; arguments: string }[]
): ScriptedAnswer {
  return events([
    ...made.map(({ name, arguments: args }, index) => ({
      type: 'tool-call' as const,
      toolCallId: `c${index}`,
      name,
      arguments: args,
    })),
    ...(made.length === 0 ? [{ type: 'text-delta' as const, text: 'Done.' }] : []),
    { type: 'usage', usage },
    { type: 'finish', finishReason: made.length > 0 ? 'tool_calls' : 'stop' },
  ]);
}

async function shop(
  script: readonly ScriptedTurn[],
  store: UsageStore = new MemoryUsageStore(),
  options: ShopOptions = {},
) {
  const { providers = [], ...others } = options;
  const model = new ScriptedModel(script, { modelId: 'large' });
  const module = await openModule(model, {
    operators: ofAll,
    ...others,
    providers: [{ provide: UsageStore, useValue: store }, ...providers],
  });
  const usage: UsageService = module.get(UsageService);
  return {
    model,
    module,
    store,
    usage,
    ledger: module.get<UsageLedger>(UsageLedger),
    loop: module.get<ToolLoopService>(ToolLoopService),
    rows: async (query: Partial<UsageReportQuery> = {}) =>
      (
        await usage.report(
          { tenant: 'acme', from: SINCE, to: TODAY, groupBy: ['actor', 'tool', 'model'], ...query },
          otto,
        )
      ).rows,
  };
}

const model = 'scripted/large';

afterEach(() => {
  jest.restoreAllMocks();
});

describe('the usage of a run', () => {
  it('is counted by actor, tool and model, with the cost that the provider reports', async () => {
    const script = [
      using(
        { inputTokens: 100, outputTokens: 10, costUsd: 0.25 },
        read('a'),
        read('b'),
        write('c'),
      ),
      using({ inputTokens: 200, outputTokens: 20 }),
    ];
    const { loop, rows } = await shop(script);
    await play(loop, ask());
    expect(await rows()).toEqual([
      { actor: 'alice', tool: 'probe__read', model, ...NONE, calls: 2 },
      { actor: 'alice', tool: 'probe__write', model, ...NONE, calls: 1 },
      {
        actor: 'alice',
        model,
        ...NONE,
        answers: 2,
        inputTokens: 300,
        outputTokens: 30,
        usd: 0.25,
        unpricedAnswers: 1,
      },
    ]);
  });

  it('is that of its own tenant and actor where two tenants have runs at once', async () => {
    const { loop, rows } = await shop([]);
    const made = Array.from({ length: 30 }, (_, index) =>
      loop.run(
        ask({
          ...(index % 2 ? bob : alice),
          model: new ScriptedModel([calls(read(`k${index}`)), text('Done.')], { modelId: 'large' }),
        }),
      ),
    );
    await Promise.all(made);
    for (const { tenant, actor } of [alice, bob])
      expect(await rows({ tenant, groupBy: ['actor'] })).toMatchObject([
        { actor: actor.id, calls: 15, answers: 30 },
      ]);
  });

  it('has no actor where the actor has no id, and no model for a call without one', async () => {
    const { loop, rows } = await shop([]);
    await loop.call({ tool: 'probe__read', args: { key: 'a' }, actor: {}, tenant: 'acme' });
    expect(await rows()).toEqual([{ tool: 'probe__read', ...NONE, calls: 1 }]);
  });

  it('has that of its sub-runs, which is the root run’s actor’s, under the tool whose call they are', async () => {
    const inner = new ScriptedModel(
      [
        using({ inputTokens: 7, outputTokens: 3, costUsd: 0.5 }, read('i')),
        using({ inputTokens: 1, outputTokens: 1, costUsd: 0.5 }),
      ],
      { modelId: 'small' },
    );
    const research = subRunTool({
      id: 'research',
      description: 'Finds out.',
      tools: ['probe__*'],
      model: inner,
    });
    const { loop, rows } = await shop(
      [calls(call('research', { prompt: 'Find.' })), text('Done.')],
      undefined,
      { tools: [research] },
    );
    await loop.run(ask());
    expect(await rows({ tool: 'research' })).toMatchObject([
      { actor: 'alice', tool: 'research', model, calls: 1, answers: 0 },
      {
        actor: 'alice',
        tool: 'research',
        model: 'scripted/small',
        calls: 0,
        answers: 2,
        inputTokens: 8,
        outputTokens: 4,
        usd: 1,
      },
    ]);
    expect(await rows({ tool: 'probe__read' })).toMatchObject([
      { actor: 'alice', model: 'scripted/small', calls: 1 },
    ]);
    expect(await rows({ groupBy: [] })).toMatchObject([{ calls: 2, answers: 4 }]);
  });

  it('is counted once where it waits and continues in another process', async () => {
    const shared = [
      { provide: RunLog, useValue: new MemoryRunLog() },
      { provide: PendingStore, useValue: new MemoryPendingStore() },
    ];
    const store = new MemoryUsageStore();
    const here = await shop([calls(read('r'), write('w'))], store, {
      policy: asking(),
      providers: shared,
    });
    const there = await shop([text('Done.')], store, { policy: asking(), providers: shared });
    const { runId } = await here.loop.run(ask());
    await (
      await there.loop.resume(runId, alice)
    ).result; // which waits again
    const approvals: PendingService = there.module.get(PendingService);
    const [open] = await approvals.list(alice);
    await approvals.decide({ approvalId: open?.approvalId ?? '', decision: 'approve' }, alice);
    expect(await resultOf(await there.loop.resume(runId, alice))).toMatchObject({
      finishReason: 'stop',
    });
    await here.ledger.flush();
    expect(await there.rows({ groupBy: ['tool'] })).toMatchObject([
      { tool: 'probe__read', calls: 1 },
      { tool: 'probe__write', calls: 1 },
      { answers: 2 },
    ]);
  });

  it('has nothing of tools that a hostile model makes up, and no number that is none', async () => {
    const usages: readonly Parameters<typeof using>[0][] = [
      { inputTokens: Number.NaN, outputTokens: -5, costUsd: -1 },
      { inputTokens: Number.POSITIVE_INFINITY, outputTokens: 2, costUsd: Number.NaN },
    ];
    const script = [
      using(usages[0], call('rm__all', {}), call('acme__steal', { key: 'a' })),
      using(usages[1]),
    ];
    const { loop, rows } = await shop(script);
    await play(loop, ask());
    expect(await rows()).toEqual([
      {
        actor: 'alice',
        model,
        ...NONE,
        answers: 2,
        inputTokens: Number.MAX_SAFE_INTEGER,
        outputTokens: 2,
        unpricedAnswers: 1,
      },
    ]);
  });

  it('is under the day on which it was used, in UTC', async () => {
    jest.useFakeTimers({
      doNotFake: [
        'nextTick',
        'queueMicrotask',
        'setImmediate',
        'setTimeout',
        'clearTimeout',
        'setInterval',
        'clearInterval',
      ],
      now: new Date('2026-11-30T23:59:59.999Z'),
    });
    try {
      const { loop, rows } = await shop([]);
      await loop.call({ tool: 'probe__read', args: { key: 'a' }, ...alice });
      jest.setSystemTime(new Date('2026-12-01T00:00:00.000Z'));
      await loop.call({ tool: 'probe__read', args: { key: 'b' }, ...alice });
      expect(await rows({ from: '2026-11-01', to: '2026-12-31', groupBy: ['day'] })).toMatchObject([
        { day: '2026-11-30', calls: 1 },
        { day: '2026-12-01', calls: 1 },
      ]);
    } finally {
      jest.useRealTimers();
    }
  });

  it('is what quotas of the tenant count, in one write, and nothing of calls that they refuse', async () => {
    const quotas = [{ quantity: 'calls', most: 2, windowMs: 3_600_000 }] as const;
    const { loop, rows, store } = await shop([calls(read('a'), read('b'), read('c'))], undefined, {
      quotas,
    });
    expect(await resultOf(loop.open(ask()))).toMatchObject({ finishReason: 'budget' });
    expect(await rows({ groupBy: ['tool'] })).toMatchObject([
      { tool: 'probe__read', calls: 2 },
      { answers: 1 },
    ]);
    expect(await store.totals('acme', [{ quantity: 'calls', windowMs: 3_600_000 }])).toEqual([2]);
  });
});

const down = () => Promise.reject(new StorageUnavailableError('The database is away.'));
const never = () => new Promise<never>(() => undefined);

describe('a store of usage', () => {
  it.each([
    ['fails for now', down],
    ['fails for good', () => Promise.reject(new Error('no such table'))],
    ['hangs', never],
  ])('harms no run when it %s', async (_, answer) => {
    jest.spyOn(Logger.prototype, 'error').mockReturnValue();
    const store = troubled(new MemoryUsageStore(), { method: 'add', answer });
    const { loop, ledger } = await shop([calls(read('a'), write('w')), text('Done.')], store);
    void ledger.flush();
    const { result } = await play(loop, ask({ limits: { runMs: 3_000 } }));
    expect(result).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded' }, { status: 'succeeded' }],
    });
  });

  it('is told later what it did not take, once, whether it had done it or not', async () => {
    for (const isDone of [true, false]) {
      let isAway = true;
      const kept = new MemoryUsageStore();
      const store = new (class extends MemoryUsageStore {
        override async add(batch: UsageBatch): Promise<readonly number[]> {
          if (isDone || !isAway) await kept.add(batch);
          return isAway ? down() : [];
        }
      })();
      const { loop, ledger } = await shop([], store);
      await loop.call({ tool: 'probe__read', args: { key: 'a' }, ...alice });
      const lost = ledger.flush();
      await loop.call({ tool: 'probe__read', args: { key: 'b' }, ...alice });
      isAway = false;
      await lost;
      await ledger.flush();
      expect(
        await kept.report({ tenant: 'acme', from: SINCE, to: TODAY, groupBy: [], limit: 1 }),
      ).toMatchObject([{ calls: 2 }]);
    }
  });

  it('is told what was noted of another tenant although it takes nothing of one', async () => {
    const logged = jest.spyOn(Logger.prototype, 'error').mockReturnValue();
    const store = new (class extends MemoryUsageStore {
      override add(batch: UsageBatch): Promise<readonly number[]> {
        return batch.tenant === 'acme'
          ? Promise.reject(new Error('no such tenant'))
          : super.add(batch);
      }
    })();
    const { loop, ledger, rows } = await shop([], store);
    for (const who of [alice, bob])
      await loop.call({ tool: 'probe__read', args: { key: 'a' }, ...who });
    await ledger.flush();
    expect(await rows({ tenant: 'globex', groupBy: [] })).toMatchObject([{ calls: 1 }]);
    expect(logged).toHaveBeenCalledTimes(1);
  });

  it('keeps 10,000 uses waiting at most, and says once that further ones are not counted', async () => {
    const logged = jest.spyOn(Logger.prototype, 'error').mockReturnValue();
    const { ledger, store, rows } = await shop([]);
    for (let index = 0; index < 10_500; index += 1)
      ledger.note('acme', { ...NONE, calls: 1, day: TODAY, actor: `a${index}` });
    ledger.note('acme', { ...NONE, calls: 5, day: TODAY, actor: 'a1' }); // one that waits already
    expect(logged).toHaveBeenCalledTimes(1);
    await ledger.flush();
    expect(await rows({ groupBy: [] })).toMatchObject([{ calls: 10_005 }]);
    ledger.note('acme', { ...NONE, calls: 1, day: TODAY, actor: 'late' });
    await ledger.flush();
    expect(
      await store.report({
        tenant: 'acme',
        from: TODAY,
        to: TODAY,
        actor: 'late',
        groupBy: [],
        limit: 1,
      }),
    ).toHaveLength(1);
  });

  it('has everything before the application has shut down', async () => {
    const { loop, module, store } = await shop([calls(read('a')), text('Done.')]);
    await loop.run(ask());
    await module.close();
    expect(
      await store.report({ tenant: 'acme', from: SINCE, to: TODAY, groupBy: [], limit: 1 }),
    ).toMatchObject([{ calls: 1, answers: 2 }]);
  });

  it('drops in memory the days that are older than 400, and the oldest rows of a tenant beyond 10,000', async () => {
    const store = new MemoryUsageStore();
    const use = (tenant: string, more: object) =>
      store.add({
        batchId: Math.random().toString(),
        tenant,
        increments: [{ ...NONE, calls: 1, day: TODAY, ...more }],
      });
    await use('globex', {});
    await use('acme', {
      day: new Date(Date.now() - 399 * 86_400_000).toISOString().slice(0, 10),
      actor: 'old',
    });
    for (let index = 0; index < 10_000; index += 1) await use('acme', { actor: `a${index}` });
    const callsOf = async (tenant: string) =>
      (await store.report({ tenant, from: '2020-01-01', to: TODAY, groupBy: [], limit: 1 }))[0]
        ?.calls;
    expect([await callsOf('acme'), await callsOf('globex')]).toEqual([10_000, 1]);
    const now = Date.now();
    jest.spyOn(Date, 'now').mockReturnValue(now + 401 * 86_400_000);
    jest.useFakeTimers({
      doNotFake: ['nextTick', 'setImmediate', 'setTimeout', 'queueMicrotask'],
      now: now + 401 * 86_400_000,
    });
    await use('globex', { day: '2030-01-01' });
    jest.useRealTimers();
    expect(await callsOf('globex')).toBeUndefined();
  });
});

/** A shop in which two actors of acme, and one of globex, have used something. */
async function used(options: ShopOptions = {}) {
  const opened = await shop([], undefined, { audit: { key: 'k'.repeat(32) }, ...options });
  for (const who of [alice, alice, { ...alice, actor: { id: 'ann' } }, bob])
    await opened.loop.call({ tool: 'probe__read', args: { key: 'a' }, ...who });
  return opened;
}

describe('a report of usage', () => {
  const query = { tenant: 'acme', from: SINCE, to: TODAY };

  it('shows people their own use, which needs no operator and is not audited', async () => {
    const { usage, module } = await used({ operators: () => false });
    expect((await usage.report({ ...query, actor: 'alice' }, alice)).rows).toMatchObject([
      { calls: 2 },
    ]);
    expect(
      (await usage.report({ ...query, tenant: 'globex', actor: 'bob' }, bob)).rows,
    ).toMatchObject([{ calls: 1 }]);
    const kinds = (await module.get(AuditStore).read('acme', { from: 1, limit: 100 })).map(
      ({ kind }) => kind,
    );
    expect(kinds).not.toContain('operator');
  });

  it.each([
    ['that of a colleague', { ...query, actor: 'ann' }, alice],
    ['that of everybody', query, alice],
    ['that of everybody, without an id of their own', query, { actor: {}, tenant: 'acme' }],
    ['that of another tenant', { ...query, tenant: 'globex', actor: 'alice' }, alice],
    ['that of another tenant as an operator of their own', { ...query, tenant: 'globex' }, otto],
    [
      'that of all tenants as an operator of their own',
      { from: SINCE, to: TODAY, everywhere: true, groupBy: ['tenant' as const] },
      otto,
    ],
    [
      'their own in all tenants',
      { from: SINCE, to: TODAY, everywhere: true, actor: 'alice' },
      alice,
    ],
  ])('refuses to show %s', async (_, asked, reader) => {
    const { usage } = await used({ operators: ofOwn });
    await expect(usage.report(asked, reader)).rejects.toThrow(OperatorError);
  });

  it('shows operators the use of all in their tenant, and of other tenants where they may, which is in the audit', async () => {
    const { usage, module } = await used();
    expect((await usage.report({ ...query, groupBy: ['actor'] }, otto)).rows).toMatchObject([
      { actor: 'alice', calls: 2 },
      { actor: 'ann', calls: 1 },
    ]);
    expect((await usage.report({ ...query, tenant: 'globex' }, otto)).rows).toMatchObject([
      { calls: 1 },
    ]);
    const entries = await module.get(AuditStore).read('globex', { from: 1, limit: 100 });
    expect(entries.at(-1)).toMatchObject({
      kind: 'operator',
      action: 'usage',
      actorId: 'otto',
      operatorTenant: 'acme',
      granted: true,
      details: { from: SINCE, to: TODAY },
    });
  });

  it('shows operators of all tenants the use of each, which is in the audit of their own', async () => {
    const { usage, module } = await used();
    const { rows } = await usage.report(
      { from: SINCE, to: TODAY, everywhere: true, groupBy: ['tenant'] },
      otto,
    );
    expect(rows).toMatchObject([
      { tenant: 'acme', calls: 3 },
      { tenant: 'globex', calls: 1 },
    ]);
    const entries = await module.get(AuditStore).read('acme', { from: 1, limit: 100 });
    expect(entries.at(-1)).toMatchObject({
      kind: 'operator',
      action: 'usage',
      granted: true,
      details: { everywhere: true },
    });
  });

  it('comes in pages, each row once', async () => {
    const { usage } = await used();
    const first = await usage.report({ ...query, groupBy: ['actor'], limit: 1 }, otto);
    expect(first).toMatchObject({ rows: [{ actor: 'alice' }], next: expect.any(String) });
    const second = await usage.report(
      { ...query, groupBy: ['actor'], limit: 1, after: first.next ?? '' },
      otto,
    );
    expect(second.rows).toMatchObject([{ actor: 'ann' }]);
    const third = await usage.report(
      { ...query, groupBy: ['actor'], limit: 1, after: second.next ?? '' },
      otto,
    );
    expect(third).toEqual({ rows: [] });
  });

  it.each<[string, object, string]>([
    ['no tenant', { tenant: '' }, 'tenant'],
    [
      'neither a tenant nor all of them',
      { tenant: undefined },
      'Give either the "tenant", or "everywhere": true.',
    ],
    [
      'a tenant and all of them',
      { everywhere: true },
      'Give either the "tenant", or "everywhere": true.',
    ],
    ['a tenant that is no text', { tenant: { not: 'text' } }, 'tenant'],
    ['no first day', { from: undefined }, 'from'],
    ['a day that does not exist', { to: '2026-02-30' }, "a day in UTC, such as '2026-11-23'"],
    ['a time instead of a day', { to: '2026-11-23T00:00:00Z' }, 'a day in UTC'],
    ['days in the wrong order', { from: TODAY, to: SINCE }, 'Give the earlier one as "from".'],
    ['more than 400 days', { from: '2025-01-01', to: '2026-11-23' }, '400 days'],
    ['a dimension that does not exist', { groupBy: ['week'] }, 'groupBy'],
    ['a dimension twice', { groupBy: ['day', 'day'] }, 'Name each dimension once.'],
    ['no limit', { limit: 0 }, 'from 1 to 1000'],
    ['a limit that is too high', { limit: 1_001 }, 'from 1 to 1000'],
    ['an option that does not exist', { actorId: 'alice' }, 'actorId'],
    ['a page that is none', { after: 'abc' }, 'Give the `next` of the page before'],
    [
      'a page of another report',
      { after: Buffer.from('[["day","x"]]').toString('base64url'), groupBy: ['tool'] },
      'Give the `next`',
    ],
  ])('is refused with %s, and says what to give', async (_, wrong, message) => {
    const { usage } = await used();
    const refused = usage.report({ ...query, ...wrong }, otto);
    await expect(refused).rejects.toMatchObject({
      name: 'InvalidRequestError',
      code: 'invalid_request',
    });
    await expect(refused).rejects.toThrow(message);
  });

  it('is refused where its store does not answer, and says so', async () => {
    const store = troubled(new MemoryUsageStore(), {
      method: 'report',
      answer: () => Promise.reject(new Error('no such table')),
    });
    const { usage } = await shop([], store);
    await expect(usage.report(query, otto)).rejects.toMatchObject({
      name: 'StorageUnavailableError',
      cause: new Error('no such table'),
    });
  });
});
