import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as wait } from 'node:timers/promises';
import { type ToolCallContext, type ToolEffect, ToolError } from '@toolloop/core';
import { linkSignal } from '../../src/contracts/interruption.js';
import { toolOf, type RawTool } from '../tools/tools.js';
import { atOnce } from '../fixtures/time.js';
import { Bench, errorOf, type RunOptions } from './bench.js';

let bench: Bench;
beforeEach(async () => {
  bench = await Bench.start();
});

/**
 * A rejection that nobody handles, and an exception that nobody catches, fail a test: they are
 * given the time to.
 */
afterEach(async () => {
  await wait(20);
});

/** A run whose one tool is named `tool`. */
function runOf(tool: Omit<RawTool, 'id'>, options: RunOptions = {}) {
  return bench.run({
    tools: [toolOf({ id: 'tool', ...tool })],
    policies: [{ allow: ['tool'] }],
    ...options,
  });
}

async function failLate(): Promise<never> {
  await wait(15);
  throw new ToolError('too late');
}

const never = (): Promise<never> => new Promise(() => undefined);

const writes: ToolEffect[] = ['state_change', 'external_side_effect'];

describe('a call that takes too long', () => {
  it('is a timeout, and may be tried again, when it reads', async () => {
    const outcome = await runOf({ invoke: never }, { limits: { toolCallMs: 20 } }).exec('tool');
    expect(errorOf(outcome)).toEqual({
      status: '500',
      code: 'timeout',
      title: 'Timed out',
      detail: 'The tool did not answer within 20 ms.',
    });
    expect(outcome.record).toMatchObject({ status: 'failed', error: { retryable: true } });
  });

  it.each(writes)('has, with the effect %s, an unknown outcome', async (effect) => {
    const outcome = await runOf({ effect, invoke: never }, { limits: { toolCallMs: 20 } }).exec(
      'tool',
    );
    expect(errorOf(outcome)).toMatchObject({
      code: 'unknown_outcome',
      detail:
        'The tool did not answer within 20 ms. It is unknown whether its effect took place. Do not repeat the call; check first.',
    });
    expect(outcome.record.error).not.toHaveProperty('retryable');
  });

  it('may have a limit of its own', async () => {
    const outcome = await runOf({ invoke: never, timeoutMs: 10 }).exec('tool');
    expect(outcome.record.error).toMatchObject({
      code: 'timeout',
      safeMessage: 'The tool did not answer within 10 ms.',
    });
  });

  it.each([Number.POSITIVE_INFINITY, 2 ** 31])(
    'is never one under a limit of %p ms',
    async (toolCallMs) => {
      const outcome = await runOf(
        { invoke: () => wait(20, 'done') },
        { limits: { toolCallMs } },
      ).exec('tool');
      expect(outcome.content).toBe('done');
    },
  );

  it('sees its signal aborted, and its deadline coming', async () => {
    let seen: ToolCallContext | undefined;
    const before = Date.now();
    let begun = before;
    const invoke = (_: unknown, context: ToolCallContext): Promise<never> => {
      seen = context;
      begun = Date.now();
      return never();
    };
    await runOf({ invoke }, { limits: { toolCallMs: 30 } }).exec('tool');
    expect(seen?.signal.aborted).toBe(true);
    expect((seen?.deadline.getTime() ?? 0) - before).toBeGreaterThanOrEqual(30);
    expect((seen?.deadline.getTime() ?? 0) - begun).toBeLessThanOrEqual(30);
  });

  it('keeps its first outcome when it answers after all', async () => {
    const run = runOf({ invoke: () => wait(25, 'too late') }, { limits: { toolCallMs: 5 } });
    const { record } = await run.exec('tool');
    await wait(40);
    expect(record.error?.code).toBe('timeout');
    expect(run.events.filter(({ type }) => type === 'tool-result')).toHaveLength(1);
  });

  it('leaves no rejection unhandled when it fails after all', async () => {
    const outcome = await runOf({ invoke: failLate }, { limits: { toolCallMs: 5 } }).exec('tool');
    expect(outcome.record.error?.code).toBe('timeout');
  });

  it('says nothing more, and is given nothing more, once it is over', async () => {
    const after: unknown[] = [];
    const invoke = async (_: unknown, context: ToolCallContext): Promise<void> => {
      await wait(15);
      context.progress('too late');
      after.push(await context.connection('crm').catch((error: Error) => error.message));
    };
    const run = runOf({ invoke }, { limits: { toolCallMs: 5 } });
    await run.exec('tool');
    await wait(30);
    expect(run.events.map(({ type }) => type)).toEqual(['tool-call', 'tool-start', 'tool-result']);
    expect(after).toEqual(['The call call_1 is over.']);
  });
});

describe('invariant 11: aborting', () => {
  it.each<[ToolEffect, string]>([
    ['read_only', 'aborted'],
    ['state_change', 'unknown_outcome'],
  ])('invariant 11: ends a running %s at once, whether it listens or not', async (effect, code) => {
    const controller = new AbortController();
    const pending = runOf({ effect, invoke: never }, { signal: controller.signal }).exec('tool');
    await wait(5);
    controller.abort();
    const outcome = await atOnce(pending);
    expect(outcome.record.error?.code).toBe(code);
    expect(errorOf(outcome).detail).toMatch(/^The run was aborted\./);
  });

  it('invariant 11: aborts the signal of the tool at once', async () => {
    const controller = new AbortController();
    let isHeard = false;
    const invoke = (_: unknown, { signal }: ToolCallContext): Promise<never> => {
      signal.addEventListener('abort', () => (isHeard = true));
      return never();
    };
    const pending = runOf({ invoke }, { signal: controller.signal }).exec('tool');
    await wait(5);
    controller.abort();
    await atOnce(pending);
    expect(isHeard).toBe(true);
  });

  it('invariant 11: ends a check of the arguments that hangs', async () => {
    const controller = new AbortController();
    const tool = toolOf({ id: 'tool' });
    const hanging = { ...tool, input: { ...tool.input, read: never } };
    const pending = runOf({}, { tools: [hanging], signal: controller.signal }).exec('tool');
    await wait(5);
    controller.abort();
    expect((await atOnce(pending)).record.error?.code).toBe('aborted');
  });

  it.each<ToolEffect>(['read_only', 'state_change', 'external_side_effect'])(
    'invariant 11: begins no %s before the start',
    async (effect) => {
      let invoked = 0;
      const run = runOf(
        { effect, invoke: () => (invoked += 1) },
        { signal: AbortSignal.abort('the client is gone') },
      );
      const outcome = await run.exec('tool');
      expect([invoked, outcome.record.error?.code, outcome.record.status]).toEqual([
        0,
        'aborted',
        'failed',
      ]);
      expect(outcome.content).not.toContain('the client is gone');
      expect(run.events.map(({ type }) => type)).toEqual(['tool-call', 'tool-result']);
    },
  );

  it.each<ToolEffect>(['read_only', ...writes])(
    'invariant 11: makes a %s or says that it was not made, whichever stage the abort falls into',
    async (effect) => {
      let told = { made: 0, code: '' };
      for (let turns = 0; told.code !== 'succeeded' && turns < 200; turns += 1) {
        const abortion = new AbortController();
        let made = 0;
        const run = runOf({ effect, invoke: () => (made += 1) }, { signal: abortion.signal });
        const calling = run.exec('tool');
        for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
        abortion.abort();
        const { record } = await atOnce(calling);
        told = { made, code: record.error?.code ?? record.status };
        const isKnown = effect === 'read_only' || (told.code === 'aborted') === (made === 0);
        expect({ turns, ...told, isKnown }).toEqual({ turns, ...told, isKnown: true });
      }
      expect(told).toEqual({ made: 1, code: 'succeeded' });
    },
  );

  it('invariant 11: begins nothing while the start is announced', async () => {
    let invoked = 0;
    const controller = new AbortController();
    const emit = ({ type }: { readonly type: string }): void => {
      if (type === 'tool-start') controller.abort();
    };
    const outcome = await runOf(
      { effect: 'state_change', invoke: () => (invoked += 1) },
      { signal: controller.signal, emit },
    ).exec('tool');
    expect([invoked, outcome.record.error?.code]).toEqual([0, 'aborted']);
  });
});

describe('linkSignal', () => {
  it('leaves no listener behind once it is released', () => {
    const controller = new AbortController();
    const link = linkSignal(controller.signal, { ms: 1000, message: 'x' });
    link.release();
    controller.abort();
    expect(link.signal.aborted).toBe(false);
  });
});
