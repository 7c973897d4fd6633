import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as wait } from 'node:timers/promises';
import {
  BadRequestException,
  HttpException,
  Injectable,
  NotFoundException,
  UnauthorizedException,
} from '@nestjs/common';
import {
  LlmTool,
  type Tool,
  type ToolCallContext,
  type ToolEffect,
  ToolError,
  ToolInterceptor,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { CallJournal, type JournalClaim, MemoryCallJournal } from '@toolloop/core/stores';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import * as fc from 'fast-check';
import { cases } from '../../../../test/cases.js';
import { Interruption } from '../../src/contracts/interruption.js';
import { start } from '../tools/application.js';
import { toolOf, type RawTool } from '../tools/tools.js';
import { atOnce } from '../fixtures/time.js';
import { Bench, errorOf, type RunOptions } from './bench.js';

let bench: Bench;
beforeEach(async () => {
  bench = await Bench.start();
});

/** A rejection that nobody handles fails a test: it is given the time to. */
afterEach(async () => {
  await wait(10);
});

const never = (): Promise<never> => new Promise(() => undefined);
/** Fails so that the next attempt follows at once. */
const flaky = (): ToolError => new ToolError('Not now.', { retryAfterMs: 0 });

interface Tried extends Omit<RawTool, 'id'> {
  readonly key?: Tool['idempotencyKey'];
}

/**
 * A run that tries again, of a tool that does one thing after the other; the last again and again.
 */
function runOf(
  doings: readonly (() => unknown)[],
  { key, ...raw }: Tried = {},
  options: RunOptions = {},
) {
  const contexts: ToolCallContext[] = [];
  const invoke = (_: unknown, context: ToolCallContext): unknown => {
    contexts.push(context);
    return (doings[contexts.length - 1] ?? doings.at(-1))?.();
  };
  const one: Tool = {
    ...toolOf({ id: 'tool', ...raw, invoke }),
    ...(key && { idempotencyKey: key }),
  };
  const run = bench.run({ tools: [one], policies: [{ allow: ['tool'] }], retry: true, ...options });
  return { ...run, contexts };
}

const fails = (error: unknown) => (): never => {
  throw error;
};
const keyed = { effect: 'external_side_effect', key: () => 'k' } as const;
const again = (status: number): HttpException =>
  new HttpException({ message: 'Later.', retryAfter: 0 }, status);

describe('a run that tries again', () => {
  it.each<[string, Tried]>([
    ['a read', {}],
    ['a write with a key of its own', keyed],
  ])('attempts %s until it succeeds, and says which attempt answered', async (_, raw) => {
    const run = runOf([fails(flaky()), fails(flaky()), () => 'done'], raw);
    const outcome = await run.exec('tool');
    expect([outcome.content, outcome.record.attempt, run.contexts.length]).toEqual(['done', 3, 3]);
    expect(new Set(run.contexts.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    expect(run.events.map(({ type }) => type)).toEqual(['tool-call', 'tool-start', 'tool-result']);
  });

  it.each<[string, unknown]>([
    ['an exception that is unknown', new Error('ECONNRESET')],
    ['nothing at all', undefined],
    ['a ToolError that may pass', flaky()],
    ['408', new HttpException('Slow.', 408)],
    ['429', again(429)],
    ['503', again(503)],
    ['500', new HttpException('Oops.', 500)],
  ])('attempts again after %s', async (_, thrown) => {
    const run = runOf([fails(thrown), () => 'done']);
    expect((await run.exec('tool')).record).toMatchObject({ status: 'succeeded', attempt: 2 });
  });

  it.each<[string, unknown, string]>([
    ['a ToolError', new ToolError('No.'), 'execution_failed'],
    ['400', new BadRequestException('No.'), 'execution_failed'],
    ['401', new UnauthorizedException('No.'), 'forbidden'],
    ['404', new NotFoundException('No.'), 'execution_failed'],
    ['a redirect', new HttpException('Elsewhere.', 302), 'execution_failed'],
  ])('does not after %s', async (_, thrown, code) => {
    const run = runOf([fails(thrown)]);
    const { record } = await run.exec('tool');
    expect([record.error?.code, record.attempt, run.contexts.length]).toEqual([code, 1, 1]);
  });

  it('does not after a result that is not what was declared, arguments that do not fit, or a refusal', async () => {
    const run = runOf([() => new Date(), () => Symbol('x')], { reveal: ['name'] });
    expect((await run.exec('tool')).record).toMatchObject({
      error: { code: 'invalid_output' },
      attempt: 1,
    });
    await run.exec('tool', 'no json');
    await run.exec('tool', { tenant: 'globex' });
    await run.exec('tool', {}, { refusal: { code: 'budget_exceeded', safeMessage: 'x' } });
    expect(run.contexts).toHaveLength(1);
  });

  it.each<ToolEffect>(['state_change', 'external_side_effect'])(
    'invariant 13: never attempts a %s again that has no key',
    async (effect) => {
      const run = runOf([fails(flaky())], { effect });
      await run.exec('tool');
      expect(run.contexts).toHaveLength(1);
    },
  );

  it.each([
    [3, {}],
    [5, { attempts: 5 }],
    [1, { attempts: 1 }],
    [1, { attempts: 0 }],
  ])('attempts %i times at most with the limits %j', async (most, limits) => {
    const run = runOf([fails(flaky())], {}, { limits });
    const outcome = await run.exec('tool');
    expect([run.contexts.length, outcome.record.attempt]).toEqual([most, most]);
    expect(errorOf(outcome).detail).toBe('Not now.');
  });

  it('does so only where it is wanted', async () => {
    const run = runOf([fails(flaky())], {}, { retry: false });
    await run.exec('tool');
    expect(run.contexts).toHaveLength(1);
  });

  it('gives each attempt the whole time of the tool, after a timeout too', async () => {
    const run = runOf([never, () => 'done'], { timeoutMs: 20 });
    const outcome = await run.exec('tool');
    expect([outcome.content, outcome.record.attempt]).toEqual(['done', 2]);
    expect(run.contexts.map(({ signal }) => signal.aborted)).toEqual([true, false]);
  });

  it('hands each attempt the input as it was sent, whatever the one before made of it', async () => {
    const seen: unknown[] = [];
    const spoil = (input: { list?: number[] }): never => {
      seen.push(structuredClone(input));
      input.list?.push(9);
      throw flaky();
    };
    const one = toolOf({ id: 'tool', invoke: (input) => spoil(input as object) });
    await bench
      .run({ tools: [one], policies: [{ allow: ['tool'] }], retry: true })
      .exec('tool', { list: [1] });
    expect(seen).toEqual([{ list: [1] }, { list: [1] }, { list: [1] }]);
  });

  it('logs each failed attempt with its number, and what it threw', async () => {
    const thrown = new ToolError('Not now.', { retryAfterMs: 0, cause: 'ECONNRESET' });
    await runOf([fails(thrown), fails(thrown), () => 'done']).exec('tool');
    const facts = { runId: 'run_1', tool: 'tool', code: 'execution_failed' };
    expect(bench.logger.warnings()).toMatchObject([
      {
        message: 'Tool call attempt failed',
        details: [{ ...facts, attempt: 1 }, thrown, 'ToolCall'],
      },
      {
        message: 'Tool call attempt failed',
        details: [{ ...facts, attempt: 2 }, thrown, 'ToolCall'],
      },
    ]);
  });

  it('passes interceptors with each attempt', async () => {
    let passed = 0;
    class Counting extends ToolInterceptor {
      override intercept(_: unknown, next: () => Promise<unknown>): Promise<unknown> {
        passed += 1;
        return next();
      }
    }
    bench = await Bench.start({ ports: [Counting] });
    await runOf([fails(flaky()), () => 'done'], keyed).exec('tool');
    expect(passed).toBe(2);
  });

  it('frees its place between attempts', async () => {
    const order: string[] = [];
    const invoke = (_: unknown, { runId }: ToolCallContext): string => {
      order.push(runId);
      if (order.filter((one) => one === runId).length === 1)
        throw new ToolError('x', { retryAfterMs: 10 });
      return runId;
    };
    const tools: Tool[] = [{ ...toolOf({ id: 'tool', invoke }), concurrency: 1 }];
    const of = (runId: string, tenant: string) =>
      bench.run({ tools, policies: [{ allow: ['tool'] }], retry: true, runId, tenant });
    await Promise.all([of('one', 'acme').exec('tool'), of('two', 'globex').exec('tool')]);
    expect(order.slice(0, 2)).toEqual(['one', 'two']);
  });
});

describe('invariant 13: a write with a key of its own', () => {
  it('invariant 13: is not attempted again when it is out of time, since its method may still be running', async () => {
    const run = runOf([never, () => 'done'], { ...keyed, timeoutMs: 15 });
    const outcome = await run.exec('tool');
    expect([outcome.record.error?.code, outcome.record.attempt, run.contexts.length]).toEqual([
      'unknown_outcome',
      1,
      1,
    ]);
    expect((await runOf([() => 'twice'], keyed).exec('tool')).record.error?.code).toBe(
      'unknown_outcome',
    );
  });

  it('invariant 13: is answered by a failure that is final', async () => {
    const outcome = await runOf(
      [fails(flaky()), fails(new ToolError('It is refunded already.'))],
      keyed,
    ).exec('tool');
    expect(errorOf(outcome).detail).toBe('It is refunded already.');
  });

  it('invariant 13: claims its key once for all attempts, and tells the journal once what became of it', async () => {
    const told: string[] = [];
    class Telling extends MemoryCallJournal {
      override acquire(...args: Parameters<CallJournal['acquire']>): Promise<JournalClaim> {
        told.push('acquire');
        return super.acquire(...args);
      }
      override finish(...args: Parameters<CallJournal['finish']>): Promise<void> {
        told.push(`finish ${args[1].status}`);
        return super.finish(...args);
      }
    }
    bench = await Bench.start({ ports: [{ provide: CallJournal, useClass: Telling }] });
    await runOf([fails(flaky()), fails(flaky()), () => 'done'], keyed).exec('tool');
    expect(told).toEqual(['acquire', 'finish succeeded']);
  });

  it('invariant 13: has the outcome of its beginning when it then waited in vain', async () => {
    const controller = new AbortController();
    const run = runOf([fails(new ToolError('Later.', { retryAfterMs: 5000 }))], keyed, {
      signal: controller.signal,
    });
    const pending = run.exec('tool');
    await wait(5);
    controller.abort();
    expect((await atOnce(pending)).record).toMatchObject({
      attempt: 1,
      error: { safeMessage: 'Later.' },
    });
    expect((await runOf([() => 'twice'], keyed).exec('tool')).record.error?.safeMessage).toBe(
      'Later.',
    );
  });

  it('invariant 13: is begun by one call only of all that have its key, however its attempts fail', async () => {
    const attempts = fc.array(fc.constantFrom('ok', 'late', 'lost', 'refused', 'wrong'), {
      minLength: 1,
      maxLength: 4,
    });
    const planned = fc.record({
      key: fc.constantFrom('a', 'b'),
      tenant: fc.constantFrom('acme', 'globex'),
      attempts,
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(planned, { maxLength: 6 }),
        fc.boolean(),
        async (plan, together) => {
          bench = await Bench.start();
          const begun = new Set<string>();
          const answered: string[] = [];
          const exec = ({ key, tenant, attempts: kinds }: (typeof plan)[number], index: number) => {
            const left = [...kinds];
            const invoke = (_: unknown, { idempotencyKey, runId }: ToolCallContext): unknown => {
              begun.add(`${idempotencyKey} in ${runId}`);
              const kind = left.shift() ?? 'ok';
              if (kind === 'refused') throw flaky();
              if (kind === 'wrong') throw new ToolError('No.');
              if (kind === 'ok') answered.push(idempotencyKey);
              return kind === 'ok' ? 'done' : kind === 'late' ? wait(15, 'late') : never();
            };
            const one: Tool = {
              ...toolOf({ id: 'tool', effect: 'state_change', timeoutMs: 5, invoke }),
              idempotencyKey: () => key,
            };
            return bench
              .run({
                tools: [one],
                policies: [{ allow: ['tool'] }],
                retry: true,
                runId: `run_${index}`,
                tenant,
              })
              .exec('tool');
          };
          if (together) await Promise.all(plan.map(exec));
          else for (const [index, one] of plan.entries()) await exec(one, index);
          expect(begun.size).toBe(new Set(plan.map(({ key, tenant }) => `${key} ${tenant}`)).size);
          expect(new Set(answered).size).toBe(answered.length);
        },
      ),
      { numRuns: cases(15) },
    );
  });
});

describe('invariant 11: a call that waits for its next attempt', () => {
  it.each<[string, Tried, string]>([
    ['a read', {}, 'aborted'],
    ['a keyed write', keyed, 'execution_failed'],
  ])('invariant 11: ends at once when its run is aborted: %s', async (_, raw, code) => {
    const controller = new AbortController();
    const run = runOf([fails(new ToolError('Later.', { retryAfterMs: 4000 }))], raw, {
      signal: controller.signal,
    });
    const pending = run.exec('tool');
    await wait(5);
    controller.abort();
    expect((await atOnce(pending)).record.error?.code).toBe(code);
    expect(run.contexts).toHaveLength(1);
  });

  it.each([
    ['aborted', undefined],
    ['timeout', new Interruption('timeout', 'The run took longer than 5 ms.')],
  ])(
    'invariant 11: is not attempted again when the run is over, and neither is one in flight: %s',
    async (code, reason) => {
      const controller = new AbortController();
      const run = runOf([never], {}, { signal: controller.signal });
      const pending = run.exec('tool');
      await wait(5);
      controller.abort(reason);
      expect((await atOnce(pending)).record).toMatchObject({ attempt: 1, error: { code } });
      expect(run.contexts).toHaveLength(1);
    },
  );

  it('invariant 11: is over when the time of the run is', async () => {
    @Injectable()
    @ToolProvider({ namespace: 'net' })
    class NetTools {
      @LlmTool({ description: 'Fetches.', effect: 'read_only', reveal: 'all' })
      fetch(@ToolParam('url', { description: 'Where' }) url: string): string {
        throw new ToolError(`${url} is busy.`, { retryAfterMs: 60_000 });
      }
    }
    const model = new ScriptedModel([calls(call('net__fetch', { url: 'a' })), text('Done.')]);
    const module = await start({ providers: [NetTools], options: { model } });
    const handle = module.get(ToolLoopService).open({
      prompt: 'Go.',
      actor: { id: 'ada' },
      tenant: 'acme',
      onToolError: 'retry',
      limits: { runMs: 60 },
    });
    const result = await handle.result; // and not when the minute is over that the tool asks for
    expect([result.finishReason, result.toolCalls[0]?.error?.code]).toEqual(['timeout', 'timeout']);
  });
});

describe("onToolError: 'retry'", () => {
  it('tries again in a run, and the model never hears of it', async () => {
    let fetched = 0;
    @Injectable()
    @ToolProvider({ namespace: 'net' })
    class NetTools {
      @LlmTool({ description: 'Fetches.', effect: 'read_only', reveal: 'all' })
      fetch(): string {
        fetched += 1;
        if (fetched === 1) throw flaky();
        return 'page';
      }
    }
    const model = new ScriptedModel([calls(call('net__fetch', {})), text('Done.')]);
    const module = await start({ providers: [NetTools], options: { model } });
    const result = await module
      .get(ToolLoopService)
      .run({ prompt: 'Go.', actor: { id: 'ada' }, tenant: 'acme', onToolError: 'retry' });
    expect(result.toolCalls).toMatchObject([{ status: 'succeeded', attempt: 2, result: 'page' }]);
    expect(JSON.stringify(model.requests[1]?.messages)).not.toContain('Not now.');
  });
});
