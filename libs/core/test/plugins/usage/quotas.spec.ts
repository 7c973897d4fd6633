import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import {
  PendingService,
  ConfigurationError,
  type LanguageModel,
  type LoopRequest,
  type LoopResult,
  type Policy,
  ToolLoopService,
} from '@toolloop/core';
import { type HistoryContext, HistoryPolicy } from '@toolloop/core/history';
import {
  amountOf,
  MemoryUsageStore,
  type Quota,
  type UsageBatch,
  UsageStore,
} from '@toolloop/core/stores';
import { addUsage, NO_USAGE } from '@toolloop/protocol';
import {
  ScriptedModel,
  call,
  calls,
  events,
  text,
  type ScriptedAnswer,
  type ScriptedTurn,
} from '@toolloop/testing';
import { UsageLedger } from '../../../src/plugins/usage/usage-ledger.js';
import { play, resultsIn } from '../../fixtures/played-run.js';
import { ask, openModule, openShop, type ShopOptions } from '../../fixtures/shop.module.js';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const callsAnHour = (most: number): Quota => ({ quantity: 'calls', most, windowMs: HOUR });
const tokensAnHour = (most: number): Quota => ({ quantity: 'tokens', most, windowMs: HOUR });
const usdAnHour = (most: number): Quota => ({ quantity: 'usd', most, windowMs: HOUR });

const read = (key = 'a') => call('probe__read', { key });
const write = (key = 'a') => call('probe__write', { key });
const reads = (...keys: readonly string[]) => calls(...keys.map(read));
const aboutCost = (logged: readonly unknown[][]) =>
  logged.filter(([message]) => String(message).includes('costUsd'));
const codes = ({ toolCalls }: LoopResult) => toolCalls.map(({ error }) => error?.code);

/** An answer that costs so much, and calls a tool. */
function costing(tokens: number, key: string, costUsd?: number): ScriptedAnswer {
  return events([
    { type: 'tool-call', toolCallId: key, name: 'probe__read', arguments: JSON.stringify({ key }) },
    {
      type: 'usage',
      usage: {
        inputTokens: tokens - 1,
        outputTokens: 1,
        ...(costUsd !== undefined && { costUsd }),
      },
    },
    { type: 'finish', finishReason: 'tool_calls' },
  ]);
}

/** A model that never has enough: it makes so many calls in every step. */
function persistent(most: number): ScriptedModel {
  const turn = (step: number) =>
    calls(...Array.from({ length: most }, (_, index) => read(`${step}-${index}`)));
  return new ScriptedModel(Array.from({ length: 20 }, (_, step) => turn(step)));
}

/** Asks a model of its own whenever it is asked. */
class AskingHistory extends HistoryPolicy {
  constructor(private readonly model: LanguageModel) {
    super();
  }

  override async cut({ ask: question }: HistoryContext): Promise<undefined> {
    await question({ messages: [{ role: 'user', content: 'Sum up.' }], tools: [] }, this.model);
  }
}

/** Counts as ours does, and notes what it was asked. */
class NotedStore extends MemoryUsageStore {
  readonly batches: UsageBatch[] = [];

  override add(batch: UsageBatch): Promise<readonly number[]> {
    this.batches.push(batch);
    return super.add(batch);
  }

  /** The batches that count for quotas. */
  get uses(): readonly UsageBatch[] {
    return this.batches.filter(({ windows = [] }) => windows.length > 0);
  }
}

/**
 * A shop, a store that can be looked into, and one run after the other in it, each with a model of
 * its own.
 */
async function shop(quotas: ShopOptions['quotas'], options: ShopOptions = {}) {
  const store = new NotedStore();
  const module = await openModule(new ScriptedModel([]), {
    ...(quotas && { quotas }),
    providers: [{ provide: UsageStore, useValue: store }],
    ...options,
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const run = async (script: readonly ScriptedTurn[], request: Partial<LoopRequest> = {}) => {
    const model = new ScriptedModel(script);
    const played = await play(loop, ask({ model, ...request }));
    model.assertComplete();
    return {
      ...played.result,
      messages: played.result.messages,
      types: played.events.map(({ type }) => type),
    };
  };
  const used = async (quantity: Quota['quantity'], tenant = 'acme', windowMs = HOUR) => {
    await module.get(UsageLedger).flush();
    const [total] = await store.totals(tenant, [{ quantity, windowMs }]);
    return total;
  };
  return { loop, store, run, used };
}

afterEach(() => {
  jest.restoreAllMocks();
});

describe('a quota of calls', () => {
  it('lets through as many of the calls that come together as are left, and then ends the run', async () => {
    const made: string[] = [];
    const act = (key: string) => made.push(key);
    const { run } = await shop([callsAnHour(5)]);
    const result = await run([reads('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h')], { context: { act } });
    expect(made.toSorted()).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(result).toMatchObject({
      finishReason: 'budget',
      steps: 1,
      finishDetail: `The tenant's quota of 5 calls in ${HOUR} ms is used up.`,
    });
    expect(codes(result).slice(4)).toEqual([
      undefined,
      'budget_exceeded',
      'budget_exceeded',
      'budget_exceeded',
    ]);
    expect(resultsIn(result.messages)).toHaveLength(8);
  });

  it('holds across the runs of a tenant, and for no other tenant', async () => {
    const { run } = await shop([callsAnHour(2)]);
    expect(await run([reads('a', 'b'), text('Done.')])).toMatchObject({ finishReason: 'stop' });
    expect(codes(await run([reads('c')], { actor: { id: 'bob' } }))).toEqual(['budget_exceeded']);
    expect(await run([reads('a'), text('Done.')], { tenant: 'globex' })).toMatchObject({
      finishReason: 'stop',
    });
  });

  it('begins anew with the next window, which begins at the full hour', async () => {
    const now = jest.spyOn(Date, 'now').mockReturnValue(100 * HOUR + 10);
    const { run } = await shop([callsAnHour(1)]);
    await run([reads('a'), text('Done.')]);
    now.mockReturnValue(101 * HOUR - 1);
    expect(await run([reads('a')])).toMatchObject({ finishReason: 'budget' });
    now.mockReturnValue(101 * HOUR);
    expect(await run([reads('a'), text('Done.')])).toMatchObject({ finishReason: 'stop' });
  });

  it('is never passed by many runs at once, be they of two applications', async () => {
    const store = new MemoryUsageStore();
    const providers = [{ provide: UsageStore, useValue: store }];
    const options = { quotas: [callsAnHour(7)], providers };
    const one = await openShop(new ScriptedModel([]), options);
    const other = await openShop(new ScriptedModel([]), options);
    const made: string[] = [];
    const act = async (key: string) => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
      made.push(key);
    };
    const runs = Array.from({ length: 20 }, (_, index) =>
      (index % 2 ? one : other).run(ask({ model: persistent(3), context: { act } })),
    );
    const results = await Promise.all(runs);
    expect(made).toHaveLength(7);
    expect(results.map(({ finishReason }) => finishReason)).toEqual(results.map(() => 'budget'));
  });

  it('takes nothing from a longer window for what the shorter one refuses', async () => {
    const { run, used } = await shop([{ ...callsAnHour(10), windowMs: DAY }, callsAnHour(1.5)]);
    await run([reads('a', 'b', 'c')]);
    await run([reads('d')]);
    expect(await used('calls', 'acme', DAY)).toBe(1);
  });

  it('makes none with 0, and a model that calls no tool answers all the same', async () => {
    const { run } = await shop([callsAnHour(0)]);
    expect(await run([text('Hello.')])).toMatchObject({ finishReason: 'stop' });
    expect(codes(await run([calls(write())]))).toEqual(['budget_exceeded']);
  });

  it('is not used up by tools that do not exist, nor by calls beyond a limit of the run', async () => {
    const { run, used } = await shop([callsAnHour(10)]);
    await run([calls(call('nothing', {}), call('acme__steal', {})), text('Well.')]);
    await run([reads('a', 'a', 'a')], { limits: { identicalCalls: 1 } });
    expect(await used('calls')).toBe(1);
  });

  it("counts for the run's tenant, whatever a hostile model writes", async () => {
    const { run, store } = await shop([callsAnHour(3)]);
    const hostile = calls(
      call('probe__read', { key: 'a', tenant: 'globex' }),
      call('probe__read', '{'),
      read('globex'),
      read('more'),
    );
    expect(codes(await run([hostile]))).toEqual([
      'tenant_override',
      'invalid_json',
      undefined,
      'budget_exceeded',
    ]);
    expect(new Set(store.uses.map(({ tenant }) => tenant))).toEqual(new Set(['acme']));
  });

  it('is that of the tenant where a function says it', async () => {
    const { run, store } = await shop((tenant) => (tenant === 'acme' ? [callsAnHour(1)] : []));
    expect(codes(await run([reads('a', 'b')]))).toEqual([undefined, 'budget_exceeded']);
    expect(codes(await run([reads('a', 'b'), text('Done.')], { tenant: 'globex' }))).toEqual([
      undefined,
      undefined,
    ]);
    expect(store.uses.some(({ tenant }) => tenant === 'globex')).toBe(false);
  });

  it('is taken once for a call that waits, and still ends the run that continues', async () => {
    const store = new NotedStore();
    const model = new ScriptedModel([calls(write('w'), write('x'))]);
    const policy = {
      version: 'v1',
      allow: ['*'],
      flow: 'off',
      requireApproval: [{ effects: ['state_change'] }],
    } as const;
    const module = await openModule(model, {
      quotas: [callsAnHour(1)],
      policy,
      providers: [{ provide: UsageStore, useValue: store }],
    });
    const loop: ToolLoopService = module.get(ToolLoopService);
    const approvals: PendingService = module.get(PendingService);
    const { runId, finishReason } = await loop.run(ask());
    expect(finishReason).toBe('waiting');
    const alice = { actor: { id: 'alice' }, tenant: 'acme' };
    const [asked] = await approvals.list(alice);
    await approvals.decide({ approvalId: asked?.approvalId ?? '', decision: 'approve' }, alice);
    const { result } = await loop.resume(runId, alice);
    expect(codes(await result)).toEqual([undefined, 'budget_exceeded']);
    expect(await result).toMatchObject({ finishReason: 'budget' });
    expect(
      store.uses.map(({ increments }) =>
        increments.reduce((sum, one) => sum + amountOf(one, 'calls'), 0),
      ),
    ).toEqual([2]);
  });
});

describe('a quota of tokens', () => {
  it('ends a run before its next model call, with the transcript', async () => {
    const { run, used } = await shop([tokensAnHour(20)]);
    const result = await run([costing(12, 'a'), costing(12, 'b')]);
    expect(result).toMatchObject({
      finishReason: 'budget',
      steps: 2,
      toolCalls: [{ status: 'succeeded' }, { status: 'succeeded' }],
    });
    expect(await used('tokens')).toBe(24);
  });

  it('keeps the next run from asking a model once it is used up, and leaves another tenant alone', async () => {
    const { run } = await shop([tokensAnHour(10)]);
    await run([text('Done.', { usage: { inputTokens: 9, outputTokens: 1 } })]);
    const spent = await run([]);
    expect(spent).toMatchObject({
      finishReason: 'budget',
      steps: 0,
      types: ['run-start', 'run-end'],
    });
    expect(spent.finishDetail).toBe(`The tenant's quota of 10 tokens in ${HOUR} ms is used up.`);
    expect(await run([text('Done.')], { tenant: 'globex' })).toMatchObject({
      finishReason: 'stop',
    });
  });

  it('counts what an answer has cost that was never whole', async () => {
    const { run, used } = await shop([tokensAnHour(100)]);
    const usage = { type: 'usage', usage: { inputTokens: 5, outputTokens: 1 } } as const;
    expect(await run([events([usage])])).toMatchObject({ finishReason: 'error' });
    expect(await used('tokens')).toBe(6);
  });

  it('counts what an answer has cost whose run was aborted', async () => {
    const { run, used } = await shop([tokensAnHour(100)]);
    const controller = new AbortController();
    const act = () => controller.abort();
    expect(
      await run([costing(12, 'a')], { signal: controller.signal, context: { act } }),
    ).toMatchObject({ finishReason: 'aborted' });
    expect(await used('tokens')).toBe(12);
  });

  it('counts what the history asks of a model, once', async () => {
    const history = new AskingHistory(
      new ScriptedModel([text('Short.', { usage: { inputTokens: 70, outputTokens: 0 } })]),
    );
    const { run, used } = await shop([tokensAnHour(100)]);
    await run([text('Done.', { usage: { inputTokens: 5, outputTokens: 0 } })], { history });
    expect(await used('tokens')).toBe(75);
  });

  it('counts what the history has asked although the step fails then', async () => {
    const history = new AskingHistory(
      new ScriptedModel([text('Short.', { usage: { inputTokens: 70, outputTokens: 0 } })]),
    );
    const { run, used } = await shop([tokensAnHour(100)]);
    await run([], { history, prepareStep: () => Promise.reject(new Error('no')) });
    expect(await used('tokens')).toBe(70);
  });

  it('keeps the inputs that the user added during the run', async () => {
    const { loop } = await shop([tokensAnHour(5)]);
    const handle = loop.open(
      ask({
        model: new ScriptedModel([costing(12, 'a')]),
        context: { act: () => handle.addInput('One more.') },
      }),
    );
    const { finishReason, messages } = await handle.result;
    expect(finishReason).toBe('budget');
    expect(messages.at(-1)).toEqual({ role: 'user', content: 'One more.' });
  });
});

describe('a quota of USD', () => {
  it('ends a run by what its models report', async () => {
    const { run, used } = await shop([usdAnHour(0.5)]);
    const result = await run([costing(2, 'a', 0.25), costing(2, 'b', 0.25)]);
    expect(result).toMatchObject({ finishReason: 'budget', steps: 2, usage: { costUsd: 0.5 } });
    expect(await used('usd')).toBe(0.5);
  });

  it('says so once where a model reports no cost', async () => {
    const warned = jest.spyOn(Logger.prototype, 'warn');
    const { run } = await shop([usdAnHour(0.5)]);
    await run([reads('a'), reads('b'), text('Done.')]);
    expect(aboutCost(warned.mock.calls)).toHaveLength(1);
  });

  it('says so where an answer without a cost follows one that has it', async () => {
    const warned = jest.spyOn(Logger.prototype, 'warn');
    const { run, used } = await shop([usdAnHour(5)]);
    await run([costing(2, 'a', 0.25), costing(2, 'b'), text('Done.')]);
    expect(aboutCost(warned.mock.calls)).toHaveLength(1);
    expect(await used('usd')).toBe(0.25);
  });

  it('says nothing where a model reports it', async () => {
    const warned = jest.spyOn(Logger.prototype, 'warn');
    const { run } = await shop([usdAnHour(5)]);
    await run([
      costing(2, 'a', 0.25),
      text('Done.', { usage: { inputTokens: 1, outputTokens: 1, costUsd: 0.25 } }),
    ]);
    expect(aboutCost(warned.mock.calls)).toEqual([]);
  });

  it('gives no money back for a cost that is negative', async () => {
    const { run, used } = await shop([usdAnHour(1)]);
    await run([costing(2, 'a', 0.75), costing(2, 'b', -5), text('Done.')]);
    expect(await used('usd')).toBe(0.75);
  });
});

describe('the cost of a run', () => {
  it('is what its policy compares with a budget of USD', async () => {
    const policy: Policy = {
      version: 'v1',
      allow: ['*'],
      flow: 'off',
      runBudgets: [{ tools: ['probe__read'], usd: 0.5 }],
    };
    const { run } = await shop(undefined, { policy });
    const result = await run([costing(2, 'a', 0.5), costing(2, 'b', 0.25), text('Done.')]);
    expect(codes(result)).toEqual([undefined, 'budget_exceeded']);
  });

  it('counts against that budget after the run has waited, too', async () => {
    const requireApproval = [{ tools: ['probe__read'] }];
    const policy: Policy = {
      version: 'v1',
      allow: ['*'],
      flow: 'off',
      requireApproval,
      runBudgets: [{ tools: ['*'], usd: 0.5, tokens: 50 }],
    };
    const model = new ScriptedModel([costing(51, 'a', 0.25), text('Done.')]);
    const alice = { actor: { id: 'alice' }, tenant: 'acme' };
    const loop = await openShop(model, { policy: { ...policy, runBudgets: [] } });
    const { runId } = await loop.run(ask());
    const { result } = await loop.resume(runId, { ...alice, policy });
    expect(codes(await result)).toEqual(['budget_exceeded']);
  });

  it('is unknown where no model reports it, and the sum of what is reported else', () => {
    expect(addUsage(NO_USAGE, NO_USAGE).costUsd).toBeUndefined();
    expect(addUsage({ ...NO_USAGE, costUsd: 0.5 }, NO_USAGE).costUsd).toBe(0.5);
    expect(addUsage({ ...NO_USAGE, costUsd: 0.5 }, { ...NO_USAGE, costUsd: 0.25 }).costUsd).toBe(
      0.75,
    );
  });
});

describe('no quota', () => {
  it('has the run wait for nothing: what it uses is counted later', async () => {
    const { run, store, used } = await shop([]);
    await run([reads('a'), text('Done.')]);
    expect(store.batches).toEqual([]);
    await used('calls');
    expect(store.batches).toMatchObject([
      { tenant: 'acme', increments: [{ answers: 2 }, { calls: 1, tool: 'probe__read' }] },
    ]);
    expect(store.uses).toEqual([]);
  });
});

describe('quotas that are none', () => {
  const wrong: [unknown, string][] = [
    [[{ quantity: 'steps', most: 1, windowMs: HOUR }], 'There is no quantity "steps".'],
    [[callsAnHour(-1)], 'Its "most" is -1.'],
    [[callsAnHour(Number.NaN)], 'Its "most" is NaN.'],
    [[{ quantity: 'calls', max: 1, windowMs: HOUR }], 'It has no "most".'],
    [[{ ...callsAnHour(1), windowMs: 0 }], 'Its "windowMs" is 0.'],
    [[{ ...callsAnHour(1), windowMs: 0.5 }], 'Its "windowMs" is 0.5.'],
    [[{ ...callsAnHour(1), windowMs: Infinity }], 'Its "windowMs" is Infinity.'],
    [[callsAnHour(1), callsAnHour(2)], 'An earlier one counts calls in the same window already.'],
    [{ calls: 3 }, 'The option "quotas" is an object.'],
  ];

  it.each(wrong)('%j stop the start', async (quotas, problem) => {
    await expect(
      openShop(new ScriptedModel([]), { quotas: quotas as readonly Quota[] }),
    ).rejects.toThrow(problem);
  });

  it.each(wrong)('%j of a function stop the run', async (quotas, problem) => {
    const loop = await openShop(new ScriptedModel([]), {
      quotas: () => quotas as readonly Quota[],
    });
    expect(() => loop.open(ask())).toThrow(ConfigurationError);
    expect(() => loop.open(ask())).toThrow(problem);
  });
});
