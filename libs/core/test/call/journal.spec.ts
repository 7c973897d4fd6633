import { EventEmitter, once } from 'node:events';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { setTimeout as wait } from 'node:timers/promises';
import { type Tool, ToolError } from '@toolloop/core';
import {
  CallJournal,
  type JournalClaim,
  type JournalHold,
  type JournalOutcome,
  type JournalStart,
  type Lease,
  MemoryCallJournal,
} from '@toolloop/core/stores';
import { longerThanStores } from '../../src/call/store-calls.js';
import { toolOf } from '../tools/tools.js';
import { Bench, errorOf, type RunOptions } from './bench.js';

const effects: unknown[] = [];
const seen: string[] = [];

const pay = toolOf({
  id: 'pay',
  effect: 'external_side_effect',
  invoke: (input) => {
    effects.push(input);
    return { receipt: effects.length };
  },
});
const order = toolOf({
  id: 'order',
  effect: 'state_change',
  invoke: (input) => effects.push(input),
});
const look = toolOf({ id: 'look', invoke: (input) => effects.push(input) });
const broken = toolOf({
  id: 'broken',
  effect: 'state_change',
  invoke: () => {
    effects.push('broken');
    throw new ToolError('No money.', { retryable: true });
  },
});
const slow = toolOf({
  id: 'slow',
  effect: 'state_change',
  invoke: async () => {
    effects.push('slow');
    await wait(60_000, undefined, { ref: false });
  },
});
const payOf = (instanceId: string): Tool => ({
  ...pay,
  entity: { provider: 'Customer', instanceId, depth: 1 },
});
const tools: Tool[] = [pay, order, look, broken, slow];
const policies = [{ allow: ['pay', 'order', 'look', 'broken', 'slow'] }];
const first = { step: 1, index: 0 };

let bench: Bench;
beforeEach(async () => {
  effects.length = 0;
  seen.length = 0;
  bench = await Bench.start();
});

const run = (options: RunOptions = {}) => bench.run({ tools, policies, ...options });

describe('invariant 13: a call that changes things', () => {
  it('invariant 13: has its effect once for one request, and the second asking gets the same answer', async () => {
    const one = await run({ runId: 'r1', requestId: 'key' }).exec('pay', { amount: 5 }, first);
    const other = await run({ runId: 'r2', requestId: 'key' }).exec('pay', { amount: 5 }, first);
    expect(effects).toEqual([{ amount: 5 }]);
    expect(other.content).toBe(one.content);
    expect(other.record).toMatchObject({ status: 'succeeded', result: { receipt: 1 } });
    expect(other).not.toHaveProperty('live');
  });

  it('invariant 13: has it again for another request, another step and another place', async () => {
    await run({ requestId: 'a' }).exec('pay', {}, first);
    await run({ requestId: 'b' }).exec('pay', {}, first);
    await run({ requestId: 'a' }).exec('pay', {}, { step: 2, index: 0 });
    await run({ requestId: 'a' }).exec('pay', {}, { step: 1, index: 1 });
    expect(effects).toHaveLength(4);
  });

  it('invariant 13: is the same call whatever the order of its arguments', async () => {
    await run({ requestId: 'key' }).exec('pay', '{"a":1,"b":2}', first);
    await run({ requestId: 'key' }).exec('pay', '{"b":2,"a":1}', first);
    expect(effects).toHaveLength(1);
  });

  it.each<[string, string, unknown]>([
    ['other arguments', 'pay', { amount: 6 }],
    ['another tool', 'order', { amount: 5 }],
  ])('invariant 13: is refused under a key that belongs to %s', async (_, name, args) => {
    await run({ requestId: 'key' }).exec('pay', { amount: 5 }, first);
    const outcome = await run({ requestId: 'key' }).exec(name, args, first);
    expect(effects).toEqual([{ amount: 5 }]);
    expect(errorOf(outcome).detail).toBe(
      'This request was already used for another call, so the call was not made.',
    );
    expect(outcome.record.status).toBe('failed');
  });

  it('invariant 13: is refused under a key that belongs to another instance of the entity', async () => {
    await run({ requestId: 'key', tools: [payOf('c-1')] }).exec('pay', {}, first);
    const outcome = await run({ requestId: 'key', tools: [payOf('c-2')] }).exec('pay', {}, first);
    expect(effects).toHaveLength(1);
    expect(outcome.record.status).toBe('failed');
  });

  it.each<[string, RunOptions]>([
    ['tenant', { tenant: 'globex' }],
    ['actor', { actorId: 'bob' }],
    ['actor, who has no id', { actorId: undefined }],
  ])('invariant 13: never answers another %s with its outcome', async (_, other) => {
    await run({ requestId: 'key' }).exec('pay', {}, first);
    const outcome = await run({ requestId: 'key', ...other }).exec('pay', {}, first);
    expect(outcome.record.result).toEqual({ receipt: 2 });
  });

  it('invariant 13: is not confused by what a client puts into its key', async () => {
    await run({ requestId: 'key', actorId: 'ada' }).exec('pay', {}, first);
    await run({ requestId: '","key', actorId: 'ada' }).exec('pay', {}, first);
    await run({ requestId: 'x"],["key', actorId: 'ada","key' }).exec('pay', {}, first);
    expect(effects).toHaveLength(3);
  });

  it('invariant 13: is answered with the same failure when it failed', async () => {
    const [one, other] = [
      await run({ requestId: 'key' }).exec('broken', {}, first),
      await run({ requestId: 'key' }).exec('broken', {}, first),
    ];
    expect(effects).toEqual(['broken']);
    expect(other.content).toBe(one.content);
    expect(other.record.error).toEqual({
      code: 'execution_failed',
      safeMessage: 'No money.',
      retryable: true,
    });
  });

  it('invariant 13: waits for another process that is making it, and answers with that outcome', async () => {
    const round = new EventEmitter();
    const held = toolOf({
      id: 'pay',
      effect: 'state_change',
      invoke: async () => [effects.push('held'), await once(round, 'done')].length,
    });
    const asked = [1, 2].map((n) =>
      run({ runId: `r${n}`, requestId: 'key', tools: [held] }).exec('pay', {}, first),
    );
    await wait(50);
    round.emit('done');
    const outcomes = await Promise.all(asked);
    expect(effects).toEqual(['held']);
    expect(outcomes.map(({ record }) => record.result)).toEqual([2, 2]);
  });

  it('invariant 13: waits no longer for another process once the run is aborted', async () => {
    const controllers = [new AbortController(), new AbortController()];
    const [pending, waiting] = controllers.map(({ signal }) =>
      run({ requestId: 'key', signal }).exec('slow', {}, first),
    );
    await wait(5);
    controllers[1]?.abort();
    expect((await waiting)?.record.error?.code).toBe('aborted');
    controllers[0]?.abort();
    await pending;
    expect(effects).toEqual(['slow']);
  });

  it('invariant 13: has an unknown outcome when it was begun and has not ended in its time', async () => {
    const limits = { toolCallMs: 10 };
    await run({ requestId: 'key', limits }).exec('slow', {}, first);
    const outcome = await run({ requestId: 'key' }).exec('slow', {}, first);
    expect(errorOf(outcome)).toMatchObject({
      code: 'unknown_outcome',
      detail: expect.stringContaining('it is unknown whether its effect took place'),
    });
    expect(effects).toEqual(['slow']);
  });

  it('invariant 13: stays of unknown outcome, and is never tried again', async () => {
    await run({ requestId: 'key', limits: { toolCallMs: 10 } }).exec('slow', {}, first);
    const outcome = await run({ requestId: 'key' }).exec('slow', {}, first);
    expect([effects, outcome.record.error?.code]).toEqual([['slow'], 'unknown_outcome']);
  });

  it('invariant 13: has its effect once when it is requested twice at the same time', async () => {
    const outcomes = await Promise.all(
      [1, 2, 3].map(() => run({ requestId: 'key' }).exec('pay', {}, first)),
    );
    expect(effects).toHaveLength(1);
    expect(outcomes.map(({ record }) => record.result)).toEqual([
      { receipt: 1 },
      { receipt: 1 },
      { receipt: 1 },
    ]);
  });

  it('invariant 13: leaves reads alone: they are done each time', async () => {
    await run({ requestId: 'key' }).exec('look', {}, first);
    await run({ requestId: 'key' }).exec('look', { other: true }, first);
    expect(effects).toHaveLength(2);
  });
});

/** Tells what it is asked, and does as the spec wants. */
class SpyJournal extends CallJournal {
  private readonly memory = new MemoryCallJournal();
  onBegin: () => Promise<unknown> = () => Promise.resolve();
  onFinish: () => Promise<unknown> = () => Promise.resolve();

  override async acquire(start: JournalStart): Promise<JournalClaim> {
    seen.push(`acquire ${start.declaredId} ${start.args}`);
    await this.onBegin();
    return this.memory.acquire(start);
  }

  override find: CallJournal['find'] = (call) => this.memory.find(call);

  override steal(...args: Parameters<CallJournal['steal']>): Promise<Lease | undefined> {
    seen.push('steal');
    return this.memory.steal(...args);
  }

  override async finish(hold: JournalHold, outcome: JournalOutcome): Promise<void> {
    seen.push(`finish ${outcome.status}`);
    await this.onFinish();
    return this.memory.finish(hold, outcome);
  }

  override release(hold: JournalHold): Promise<void> {
    seen.push('release');
    return this.memory.release(hold);
  }
}

describe('the journal', () => {
  let journal: SpyJournal;
  beforeEach(async () => {
    journal = new SpyJournal();
    bench = await Bench.start({ ports: [{ provide: CallJournal, useValue: journal }] });
  });

  it('is told before the effect, with canonical arguments, and after it', async () => {
    const traced = { ...pay, invoke: () => seen.push('effect') };
    await run({ tools: [traced] }).exec('pay', '{"b":1,"a":2}');
    expect(seen).toEqual(['acquire pay {"a":2,"b":1}', 'effect', 'finish succeeded']);
  });

  it('is not asked for reads, nor for calls that are refused', async () => {
    await run().exec('look');
    await run({ policies: [{ allow: ['*'] }] }).exec('pay');
    await run({
      policies: [
        {
          ...policies[0],
          allow: ['pay'],
          requireApproval: [{ effects: ['external_side_effect'] }],
        },
      ],
    }).exec('pay');
    await run().exec('pay', 'no json');
    await run().exec('pay', {}, { refusal: { code: 'budget_exceeded', safeMessage: 'x' } });
    await run({ signal: AbortSignal.abort() }).exec('pay');
    expect([seen, effects]).toEqual([[], [{}]]);
  });

  it('keeps no outcome of a call whose outcome is unknown, so that it does not count as finished', async () => {
    await run({ limits: { toolCallMs: 10 } }).exec('slow');
    expect(seen).toEqual(['acquire slow {}']);
  });

  it('keeps the call from being made when it cannot take the key', async () => {
    journal.onBegin = () => Promise.reject(new Error('connection refused to 10.0.0.7'));
    const outcome = await run().exec('pay');
    expect(effects).toEqual([]);
    expect(outcome.record).toMatchObject({ status: 'waiting', error: { code: 'aborted' } });
    expect(outcome.content).not.toContain('10.0.0.7');
  });

  it('leaves the key taken when it cannot keep the outcome, and the answer stands', async () => {
    journal.onFinish = () => Promise.reject(new Error('disk full'));
    const outcome = await run({ requestId: 'lost', limits: { toolCallMs: 10 } }).exec(
      'pay',
      {},
      first,
    );
    const again = await run({ requestId: 'lost' }).exec('pay', {}, first);
    expect(outcome.record.status).toBe('succeeded');
    expect([effects.length, again.record.error?.code]).toEqual([1, 'unknown_outcome']);
    expect(bench.logger.errors().map(({ message }) => message)).toEqual([
      'The outcome of pay could not be stored (run run_1).',
    ]);
  });

  it('never keeps the run from ending when it does not answer for the outcome', async () => {
    jest.useFakeTimers();
    try {
      journal.onFinish = () => new Promise(() => undefined);
      const pending = run().exec('pay');
      await jest.advanceTimersByTimeAsync(longerThanStores(1));
      expect((await pending).record.status).toBe('succeeded');
    } finally {
      jest.useRealTimers();
    }
  });

  it('is left behind by an aborted run when it hangs, and the call is not made later', async () => {
    const round = new EventEmitter();
    journal.onBegin = () => once(round, 'come');
    const controller = new AbortController();
    const pending = run({ requestId: 'late', signal: controller.signal }).exec('pay', {}, first);
    await wait(5);
    controller.abort();
    expect((await pending).record.error?.code).toBe('aborted');
    round.emit('come');
    await wait(5);
    expect([effects, seen]).toEqual([[], ['acquire pay {}', 'release']]);
  });

  it('has its key back when an abort overtakes it', async () => {
    const controller = new AbortController();
    journal.onBegin = () => {
      controller.abort();
      return Promise.resolve();
    };
    const outcome = await run({ signal: controller.signal }).exec('pay');
    await wait(5);
    expect([outcome.record.error?.code, effects, seen]).toEqual([
      'aborted',
      [],
      ['acquire pay {}', 'release'],
    ]);
  });
});

const start = (key: string): JournalStart & JournalHold => ({
  tenant: 't',
  idempotencyKey: key,
  owner: 'c',
  epoch: 1,
  runId: 'r',
  declaredId: 'd',
  args: '{}',
  forMs: 60_000,
});
const done: JournalOutcome = { status: 'succeeded', content: 'ok', ui: null };

describe('MemoryCallJournal', () => {
  it('forgets the oldest finished calls beyond twenty thousand, keeps the newest ten thousand, and never forgets one that is open', async () => {
    const memory = new MemoryCallJournal();
    await memory.acquire(start('open'));
    for (let index = 0; index <= 20_000; index += 1) {
      await memory.acquire(start(`${index}`));
      await memory.finish(start(`${index}`), done);
    }
    expect(await memory.acquire(start('0'))).toMatchObject({ status: 'acquired' });
    for (let index = 10_001; index <= 20_000; index += 1)
      expect(await memory.acquire(start(`${index}`))).toEqual({
        status: 'finished',
        outcome: done,
      });
    expect(await memory.acquire({ ...start('open'), owner: 'another' })).toMatchObject({
      status: 'in_progress',
    });
  });

  it('ignores the end of a call it knows nothing of', async () => {
    const memory = new MemoryCallJournal();
    await memory.finish(start('never'), done);
    expect(await memory.acquire(start('never'))).toMatchObject({ status: 'acquired' });
  });
});
