import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as wait } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import {
  LlmTool,
  rawTool,
  tool,
  type Tool,
  type ToolEffect,
  ToolError,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { start } from '../tools/application.js';
import { toolOf, type RawTool } from '../tools/tools.js';
import { atOnce } from '../fixtures/time.js';
import { Bench, errorOf, type RunOptions, type TextOutcome } from './bench.js';

/** How many run now, how many ever ran at once, and who began in which order. */
let running = 0;
let most = 0;
const begun: unknown[] = [];

async function busy(name: unknown, ms = 5): Promise<unknown> {
  begun.push(name);
  running += 1;
  most = Math.max(most, running);
  await wait(ms);
  running -= 1;
  return name;
}

@Injectable()
@ToolProvider({ namespace: 'slow' })
class SlowTools {
  @LlmTool({ description: 'Waits.', effect: 'read_only', reveal: 'all', concurrency: 2 })
  pair(@ToolParam('name', { description: 'Name' }) name: string): Promise<unknown> {
    return busy(name);
  }
}

@ToolProvider({ prefix: 'ticket' })
class Ticket {
  @Expose() readonly id: string;
  constructor(id: string) {
    this.id = id;
  }

  @LlmTool({ description: 'Looks.', effect: 'read_only', reveal: 'all', concurrency: 1 })
  look(): Promise<unknown> {
    return busy(this.id);
  }
}

@Injectable()
@ToolProvider({ namespace: 'desk' })
class DeskTools {
  @LlmTool({ description: 'Finds.', effect: 'read_only', output: [Ticket] })
  find(): Ticket[] {
    return ['t1', 't2', 't3'].map((id) => new Ticket(id));
  }
}

class Slow {
  call(): Promise<unknown> {
    return busy('raw');
  }
}

let bench: Bench;
beforeEach(async () => {
  running = 0;
  most = 0;
  begun.length = 0;
  const raw = {
    description: 'Waits.',
    effect: 'read_only',
    reveal: 'all',
    concurrency: 1,
  } as const;
  bench = await Bench.start({
    providers: [SlowTools],
    options: {
      tools: [
        tool({ ...raw, id: 'raw_tool', execute: () => busy('raw') }),
        rawTool(Slow, { ...raw, as: 'raw_class' }),
      ],
    },
  });
});

/** A rejection that nobody handles fails a test: it is given the time to. */
afterEach(async () => {
  await wait(10);
});

const never = (): Promise<never> => new Promise(() => undefined);
const policies = [{ allow: ['one', 'other'] }];
const narrow = (raw: RawTool): Tool => ({ ...toolOf(raw), concurrency: 1 });
const busyFor = (input: unknown): Promise<unknown> =>
  busy('sent', (input as { readonly ms: number }).ms);
/** A run named `holds` does not let go. */
const hold = (_: unknown, { runId }: { readonly runId: string }): Promise<unknown> =>
  runId === 'holds' ? never() : busy(runId);
const runOf = (
  invoke: NonNullable<RawTool['invoke']>,
  options: RunOptions = {},
  effect: ToolEffect = 'read_only',
) =>
  bench.run({
    tools: [narrow({ id: 'one', invoke, effect }), narrow({ id: 'other', invoke, effect })],
    policies,
    ...options,
  });

/** A call that changes things, with a key of its own. */
function keyed(key: string, options: RunOptions): Promise<TextOutcome> {
  const one: Tool = {
    ...narrow({ id: 'one', invoke: hold, effect: 'state_change' }),
    idempotencyKey: () => key,
  };
  return bench.run({ tools: [one], policies, ...options }).exec('one');
}

describe('a tool with a concurrency', () => {
  it('runs so many calls at once, over all runs and tenants, and the others in their order', async () => {
    const tenants = ['acme', 'globex', 'acme', 'globex', 'acme', 'initech'];
    const outcomes = await Promise.all(
      tenants.map((tenant, n) =>
        bench.run({ tenant, runId: `run_${n}` }).exec('slow__pair', { name: `${tenant}${n}` }),
      ),
    );
    expect(most).toBe(2);
    expect(begun).toEqual(tenants.map((tenant, n) => `${tenant}${n}`));
    expect(outcomes.map(({ content }) => content)).toEqual(begun);
  });

  it.each(['raw_tool', 'raw_class'])('may be a raw one: %s', async (id) => {
    await Promise.all([1, 2, 3].map(() => bench.run().exec(id)));
    expect([most, begun.length]).toEqual([1, 3]);
  });

  it('knows who runs while some of them leave', async () => {
    const run = runOf(hold, {
      tools: [{ ...narrow({ id: 'one', invoke: busyFor }), concurrency: 2 }],
    });
    const long = run.exec('one', { ms: 40 });
    await run.exec('one', { ms: 2 });
    await Promise.all([run.exec('one', { ms: 5 }), run.exec('one', { ms: 5 }), long]);
    expect(most).toBe(2);
  });

  it('may be that of an entity: it holds for all instances together', async () => {
    const looks = ['t1', 't2', 't3'].map((id) => call(`ticket_${id}_look`, {}, { id }));
    const model = new ScriptedModel([
      calls(call('desk__find', {})),
      calls(...looks),
      text('Done.'),
    ]);
    const module = await start({ providers: [DeskTools], options: { model } });
    await module
      .get(ToolLoopService)
      .run({ prompt: 'Look.', actor: { id: 'ada' }, tenant: 'acme' });
    expect([most, begun]).toEqual([1, ['t1', 't2', 't3']]);
  });

  it('does not keep another waiting', async () => {
    const run = runOf((_, { toolCallId }) => busy(toolCallId, 20));
    await Promise.all([run.exec('one'), run.exec('other')]);
    expect(most).toBe(2);
  });

  it('frees its place when a call fails, in whatever way', async () => {
    const failures: (() => unknown)[] = [
      () => Promise.reject(new Error('x')),
      () => {
        throw new ToolError('x');
      },
      () => Symbol('no result'),
      never,
    ];
    const invoke = () => failures.shift()?.() ?? 'done';
    const run = runOf(invoke, { limits: { toolCallMs: 15, identicalCalls: 9 } });
    for (const _ of [1, 2, 3, 4]) await run.exec('one');
    expect((await run.exec('one')).content).toBe('done');
  });
});

describe('a call that waits for its place', () => {
  it.each<ToolEffect>(['read_only', 'state_change', 'external_side_effect'])(
    'has not begun before its time is up, and may be made again: %s',
    async (effect) => {
      let invoked = 0;
      const controller = new AbortController();
      const invoke = () => {
        invoked += 1;
        return never();
      };
      const holding = runOf(invoke, { signal: controller.signal }, effect).exec('one');
      const outcome = await runOf(
        invoke,
        { runId: 'run_2', limits: { toolCallMs: 15 } },
        effect,
      ).exec('one');
      expect(errorOf(outcome)).toMatchObject({
        code: 'timeout',
        detail: 'The tool did not answer within 15 ms.',
      });
      expect([outcome.record.error?.retryable, invoked]).toEqual([true, 1]);
      controller.abort();
      await holding;
    },
  );

  it('invariant 11: ends at once when its run is aborted, and the next has its turn', async () => {
    const end = new AbortController();
    const leave = new AbortController();
    const holding = runOf(hold, { runId: 'holds', signal: end.signal }).exec('one');
    const leaving = runOf(hold, { runId: 'leaves', signal: leave.signal }).exec('one');
    const staying = runOf(hold, { runId: 'stays', tenant: 'globex' }).exec('one');
    await wait(5);
    leave.abort();
    expect((await atOnce(leaving)).record.error?.code).toBe('aborted');
    end.abort();
    expect((await atOnce(holding)).record.error?.code).toBe('aborted');
    expect((await staying).content).toBe('stays');
    expect(begun).toEqual(['stays']);
  });

  it('gives the place on when it is aborted in the moment it gets it', async () => {
    const controller = new AbortController();
    const first = runOf(async () => {
      await wait(5);
      controller.abort();
    }).exec('one');
    const second = runOf(() => busy('second'), { runId: 'run_2', signal: controller.signal }).exec(
      'one',
    );
    const third = runOf(() => busy('third'), { runId: 'run_3' }).exec('one');
    await first;
    expect((await second).record.error?.code).toBe('aborted');
    expect((await third).content).toBe('third');
  });

  it('keeps nothing of a key of its own, so that the call can still be made', async () => {
    const controller = new AbortController();
    const holding = keyed('holds', { runId: 'holds', signal: controller.signal });
    const late = await keyed('k', { runId: 'late', limits: { toolCallMs: 10 } });
    controller.abort();
    await holding;
    const again = await keyed('k', { runId: 'again' });
    expect([late.record.error?.code, again.content]).toEqual(['timeout', 'again']);
  });
});
