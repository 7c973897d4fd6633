import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import type { ToolLoopService } from '@toolloop/core';
import {
  amountOf,
  MemoryUsageStore,
  type Quota,
  StoreRefusalError,
  type UsageBatch,
  type UsageRow,
  UsageStore,
  type UsageWindow,
} from '@toolloop/core/stores';
import {
  ScriptedModel,
  call,
  calls,
  collect,
  expectRunEndsOnce,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { atOnce } from '../../fixtures/time.js';
import { play, resultOf } from '../../fixtures/played-run.js';
import { ask, openShop } from '../../fixtures/shop.module.js';

const HOUR = 3_600_000;
const CALLS: Quota = { quantity: 'calls', most: 5, windowMs: HOUR };
const TOKENS: Quota = { quantity: 'tokens', most: 1_000, windowMs: HOUR };

const read = (key = 'a') => call('probe__read', { key });
const down = (): Promise<number> => Promise.reject(new Error('secret database'));
const broken = (): Promise<number> => {
  throw new Error('secret database');
};
const refusing = (): Promise<number> => Promise.reject(new StoreRefusalError('secret database'));
const never = (): Promise<number> => new Promise(() => undefined);

/** An addition to a window; 0 reads it. */
interface WindowUse {
  readonly quantity: Quota['quantity'];
  readonly amount: number;
}

/** Answers about its windows as a test wants it to. */
class TroubledStore extends UsageStore {
  readonly uses: WindowUse[] = [];

  constructor(private readonly answer: (use: WindowUse) => Promise<number>) {
    super();
  }

  override add({ increments, windows = [] }: UsageBatch): Promise<readonly number[]> {
    return this.answers(windows, ({ quantity }) =>
      increments.reduce((sum, one) => sum + amountOf(one, quantity), 0),
    );
  }

  override totals(_tenant: string, windows: readonly UsageWindow[]): Promise<readonly number[]> {
    return this.answers(windows, () => 0);
  }

  override report(): Promise<readonly UsageRow[]> {
    return Promise.resolve([]);
  }

  private answers(
    windows: readonly UsageWindow[],
    amount: (window: UsageWindow) => number,
  ): Promise<readonly number[]> {
    const uses = windows.map((window) => ({ quantity: window.quantity, amount: amount(window) }));
    this.uses.push(...uses);
    return Promise.all(uses.map((use) => this.answer(use)));
  }
}

/** Adds so many calls, and reads the total; 0 reads it. */
async function totalOf(
  store: UsageStore,
  {
    tenant = 'acme',
    quantity = 'calls',
    windowMs = HOUR,
    amount = 0,
  }: Partial<WindowUse & { tenant: string; windowMs: number }> = {},
): Promise<number> {
  const windows = [{ quantity, windowMs }];
  const use = {
    day: '2026-11-23',
    calls: amount,
    answers: 0,
    inputTokens: 0,
    outputTokens: 0,
    usd: 0,
    unpricedAnswers: 0,
  };
  const [total] = await (amount === 0
    ? store.totals(tenant, windows)
    : store.add({ batchId: randomUUID(), tenant, increments: [use], windows }));
  return total ?? Number.NaN;
}

function openWith(
  store: UsageStore,
  quotas: readonly Quota[],
  script: readonly ScriptedTurn[],
): Promise<ToolLoopService> {
  return openShop(new ScriptedModel(script), {
    quotas,
    providers: [{ provide: UsageStore, useValue: store }],
  });
}

afterEach(() => {
  jest.useRealTimers();
  jest.restoreAllMocks();
});

const noNumber = () => Promise.resolve(Number.NaN);

describe('a quota store that fails', () => {
  it.each([
    ['rejects', down],
    ['throws', broken],
    ['refuses what it was given', refusing],
  ])(
    'ends the run before a call when it %s, since that says nothing of the call',
    async (_, answer) => {
      const act = jest.fn();
      const loop = await openWith(
        new TroubledStore(answer),
        [CALLS],
        [calls(read('a'), read('b'))],
      );
      const { result, events } = await play(loop, ask({ context: { act } }));
      expect(act).not.toHaveBeenCalled();
      expect(result).toMatchObject({
        finishReason: 'error',
        error: { code: 'storage_unavailable' },
        toolCalls: [],
      });
      expect(JSON.stringify([events, result.messages])).not.toContain('secret');
    },
  );

  it('keeps calls from being made when it counts what is no number', async () => {
    const act = jest.fn();
    const loop = await openWith(
      new TroubledStore(noNumber),
      [CALLS],
      [calls(read('a'), read('b')), text('I could not.')],
    );
    const { result } = await play(loop, ask({ context: { act } }));
    expect(act).not.toHaveBeenCalled();
    expect(result.toolCalls.map(({ status }) => status)).toEqual(['failed', 'failed']);
  });

  it.each([
    ['rejects', down],
    ['throws', broken],
    ['refuses what it was given', refusing],
  ])(
    'keeps models from being asked when it %s, which is an error and not a used up quota',
    async (_, answer) => {
      const model = new ScriptedModel([]);
      const loop = await openShop(model, {
        quotas: [TOKENS],
        providers: [{ provide: UsageStore, useValue: new TroubledStore(answer) }],
      });
      const { result, events } = await play(loop, ask());
      expect(result).toMatchObject({
        finishReason: 'error',
        error: { code: 'storage_unavailable' },
        steps: 0,
      });
      expect(model.requests).toEqual([]);
      expect(JSON.stringify([events, result])).not.toContain('secret');
    },
  );

  it('loses no answer when it fails after it', async () => {
    const store = new TroubledStore(({ amount }) => (amount > 0 ? down() : Promise.resolve(0)));
    const { result } = await play(await openWith(store, [TOKENS], [text('Done.')]), ask());
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Done.' });
  });

  it('is logged once in a run', async () => {
    const logged = jest.spyOn(Logger.prototype, 'error');
    const loop = await openWith(
      new TroubledStore(down),
      [CALLS],
      [calls(read('a'), read('b')), calls(read('c')), text('Well.')],
    );
    await play(loop, ask());
    expect(
      logged.mock.calls.filter(([message]) => String(message).includes('quotas')),
    ).toHaveLength(1);
  });
});

describe('a run that is aborted while its answer is counted', () => {
  it('takes no calls, since it makes none', async () => {
    const controller = new AbortController();
    const store = new TroubledStore(({ amount }) => {
      if (amount > 0) controller.abort();
      return Promise.resolve(amount);
    });
    const { result } = await play(
      await openWith(store, [CALLS, TOKENS], [calls(read())]),
      ask({ signal: controller.signal }),
    );
    expect(result).toMatchObject({
      finishReason: 'aborted',
      toolCalls: [{ error: { code: 'aborted' } }],
    });
    expect(store.uses.map(({ quantity }) => quantity)).toEqual(['tokens', 'tokens']);
  });
});

describe('a quota store that hangs', () => {
  it('ends the run after 9 s, and the model is told nothing of it', async () => {
    const loop = await openWith(
      new TroubledStore(never),
      [CALLS],
      [calls(read()), text('I could not.')],
    );
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
    const handle = loop.open(ask());
    const reading = collect(handle.events$);
    await jest.advanceTimersByTimeAsync(9_001);
    expectRunEndsOnce(await reading);
    const result = await resultOf(handle);
    expect(result).toMatchObject({
      finishReason: 'error',
      error: { code: 'storage_unavailable' },
      toolCalls: [],
    });
    expect(JSON.stringify(result.messages)).not.toContain('could not be');
  });

  it('is an error, and no timeout of the run, when it keeps a model from being asked', async () => {
    const loop = await openWith(new TroubledStore(never), [TOKENS], []);
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
    const handle = loop.open(ask());
    const reading = collect(handle.events$);
    await jest.advanceTimersByTimeAsync(9_001);
    await reading;
    expect(await resultOf(handle)).toMatchObject({
      finishReason: 'error',
      error: { code: 'storage_unavailable' },
    });
  });

  it.each([
    ['before a model call', [TOKENS], (use: WindowUse) => use.amount === 0, []],
    ['after an answer', [TOKENS], (use: WindowUse) => use.amount > 0, []],
    ['before a call', [CALLS], () => true, ['aborted']],
  ] as const)('%s is not waited for by a run that is aborted', async (_, quotas, isHung, codes) => {
    let reach!: () => void;
    const reached = new Promise<void>((resolve) => {
      reach = resolve;
    });
    const store = new TroubledStore((use) => {
      if (!isHung(use)) return Promise.resolve(0);
      reach();
      return never();
    });
    const act = jest.fn();
    const turn = quotas[0] === CALLS ? calls(read()) : text('Done.');
    const handle = (await openWith(store, quotas, [turn])).open(ask({ context: { act } }));
    const reading = collect(handle.events$);
    await reached;
    handle.cancel();
    expectRunEndsOnce(await atOnce(reading));
    const result = await resultOf(handle);
    expect(result.finishReason).toBe('aborted');
    expect(result.toolCalls.map(({ error }) => error?.code)).toEqual(codes);
    expect(act).not.toHaveBeenCalled();
  });
});

describe('the quotas in memory', () => {
  it('keep tenants, quantities and windows apart, whatever they are called', async () => {
    const store = new MemoryUsageStore();
    await totalOf(store, { amount: 3 });
    expect(await totalOf(store, { amount: 2 })).toBe(5);
    for (const other of [
      { tenant: 'acme","calls' },
      { tenant: 'globex' },
      { quantity: 'tokens' as const },
      { windowMs: HOUR + 1 },
    ])
      expect(await totalOf(store, other)).toBe(0);
  });

  it('begin at 0 with every window', async () => {
    const now = jest.spyOn(Date, 'now').mockReturnValue(7 * HOUR - 1);
    const store = new MemoryUsageStore();
    await totalOf(store, { amount: 3 });
    now.mockReturnValue(7 * HOUR);
    expect(await totalOf(store)).toBe(0);
    now.mockReturnValue(8 * HOUR - 1);
    expect(await totalOf(store, { amount: 1 })).toBe(1);
  });

  it('are at most 100,000; the least recently used goes first', async () => {
    const store = new MemoryUsageStore();
    await totalOf(store, { tenant: 'early', amount: 1 });
    await totalOf(store, { tenant: 'busy', amount: 1 });
    for (let index = 0; index < 99_998; index += 1) await totalOf(store, { tenant: `t${index}` });
    await totalOf(store, { tenant: 'busy', amount: 1 });
    await totalOf(store, { tenant: 'late' });
    await totalOf(store, { tenant: 'later' });
    expect(await totalOf(store, { tenant: 'busy' })).toBe(2);
    expect(await totalOf(store, { tenant: 'early' })).toBe(0);
  });
});
