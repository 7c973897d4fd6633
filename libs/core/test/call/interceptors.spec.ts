import { describe, expect, it } from '@jest/globals';
import { setTimeout as wait } from 'node:timers/promises';
import type { Type } from '@nestjs/common';
import { type ToolEffect, ToolError, ToolInterceptor } from '@toolloop/core';
import type { ToolInvocation } from '@toolloop/core/contracts';
import { of } from 'rxjs';
import { ToolCallStorage } from '../../src/call/call-storage.js';
import { toolOf, type RawTool } from '../tools/tools.js';
import { Bench, errorOf, type RunOfCalls, type RunOptions } from './bench.js';

type Intercept = (invocation: ToolInvocation, next: () => Promise<unknown>) => Promise<unknown>;

/** An interceptor class that does this. */
function interceptor(intercept: Intercept): Type<ToolInterceptor> {
  return class extends ToolInterceptor {
    override intercept(invocation: ToolInvocation, next: () => Promise<unknown>): Promise<unknown> {
      return intercept(invocation, next);
    }
  };
}

async function runWith(
  intercepts: readonly Intercept[],
  tool: Omit<RawTool, 'id'>,
  options: RunOptions = {},
): Promise<RunOfCalls> {
  const bench = await Bench.start({ ports: intercepts.map(interceptor) });
  return bench.run({
    tools: [toolOf({ id: 'tool', ...tool })],
    policies: [{ allow: ['tool'] }],
    ...options,
  });
}

const passes: Intercept = (_, next) => next();

async function twice(_: ToolInvocation, next: () => Promise<unknown>): Promise<unknown> {
  await next();
  return next();
}

async function retry(_: ToolInvocation, next: () => Promise<unknown>): Promise<unknown> {
  try {
    return await next();
  } catch {
    return next();
  }
}

const answering: Intercept = () => Promise.resolve({ shown: 1, secret: 2 });
const kinder: Intercept = (_, next) =>
  next().catch(() => Promise.reject(new ToolError('Try tomorrow.')));
const hesitant: Intercept = async (_, next) => {
  await wait(20);
  return next();
};

describe('ToolInterceptor', () => {
  it('wraps the method, in the order of the providers', async () => {
    const order: string[] = [];
    const tracing =
      (name: string): Intercept =>
      async (_, next) => {
        order.push(`${name} before`);
        const result = await next();
        order.push(`${name} after`);
        return result;
      };
    const run = await runWith([tracing('one'), tracing('two')], {
      invoke: () => order.push('method'),
    });
    await run.exec('tool');
    expect(order).toEqual(['one before', 'two before', 'method', 'two after', 'one after']);
  });

  it('sees what the method receives, and who asks', async () => {
    const seen: ToolInvocation[] = [];
    const looking: Intercept = (invocation, next) => {
      seen.push(invocation);
      return next();
    };
    const run = await runWith([looking], { invoke: () => 'done' }, { tenant: 'globex' });
    await run.exec('tool', { n: 1 });
    expect(seen).toMatchObject([
      {
        tool: { id: 'tool' },
        input: { n: 1 },
        context: { tenant: 'globex', toolCallId: 'call_1' },
      },
    ]);
  });

  it('may answer itself, and its answer is checked and projected like any', async () => {
    let called = 0;
    const run = await runWith([answering], { reveal: ['shown'], invoke: () => (called += 1) });
    expect([(await run.exec('tool')).content, called]).toEqual(['{"shown":1}', 0]);
  });

  it('may change the result', async () => {
    const run = await runWith([async (_, next) => `${String(await next())}!`], {
      invoke: () => 'done',
    });
    expect((await run.exec('tool')).content).toBe('done!');
  });

  it('may turn an error into another', async () => {
    const run = await runWith([kinder], {
      invoke: () => Promise.reject(new Error('ECONNREFUSED')),
    });
    expect(errorOf(await run.exec('tool')).detail).toBe('Try tomorrow.');
  });

  it.each<[string, Intercept]>([
    ['throws', () => Promise.reject(new Error('secret 10.0.0.7'))],
    [
      'throws without a promise',
      () => {
        throw new Error('secret 10.0.0.7');
      },
    ],
  ])('fails the call when it %s, and reveals nothing', async (_, failing) => {
    const run = await runWith([passes, failing], { invoke: () => 'done' });
    const outcome = await run.exec('tool');
    expect(outcome.record.error?.code).toBe('execution_failed');
    expect(outcome.content).not.toContain('10.0.0.7');
  });

  it('meets a method that throws at once as a rejection', async () => {
    const run = await runWith([retry], {
      invoke: () => {
        throw new ToolError('No.');
      },
    });
    expect(errorOf(await run.exec('tool')).detail).toBe('No.');
  });

  it('passes a stream on, which is drained behind it', async () => {
    const run = await runWith([passes], { invoke: () => of(1, 2, 3) });
    expect((await run.exec('tool')).content).toBe('3');
    expect(run.events.filter(({ type }) => type === 'tool-progress')).toHaveLength(2);
  });

  it('is within the time of the call', async () => {
    const run = await runWith(
      [() => new Promise(() => undefined)],
      { invoke: () => 'done' },
      { limits: { toolCallMs: 10 } },
    );
    expect((await run.exec('tool')).record.error?.code).toBe('timeout');
  });

  it('is not asked about a call that is refused', async () => {
    let asked = 0;
    const counting: Intercept = (_, next) => {
      asked += 1;
      return next();
    };
    const run = await runWith([counting], { invoke: () => 'done' }, { policies: [{ allow: [] }] });
    await run.exec('tool');
    await run.exec('missing');
    expect(asked).toBe(0);
  });

  it('runs within the context of the call', async () => {
    const bench = await Bench.start({
      ports: [
        {
          provide: 'INTERCEPTOR',
          inject: [ToolCallStorage],
          useFactory: (storage: ToolCallStorage) =>
            new (interceptor(() => Promise.resolve(storage.current()?.tenant)))(),
        },
      ],
    });
    const run = bench.run({
      tools: [toolOf({ id: 'tool' })],
      policies: [{ allow: ['tool'] }],
      tenant: 'globex',
    });
    expect((await run.exec('tool')).content).toBe('globex');
  });
});

describe('invariant 13: an interceptor that calls next() again', () => {
  it('invariant 13: reads again', async () => {
    let called = 0;
    const run = await runWith([twice], { invoke: () => (called += 1) });
    expect((await run.exec('tool')).content).toBe('2');
  });

  it.each<[ToolEffect, string, Intercept]>([
    ['state_change', 'after an answer', twice],
    ['external_side_effect', 'after a failure', retry],
  ])('invariant 13: does not have the effect of a %s again %s', async (effect, _, again) => {
    let effects = 0;
    const invoke = (): number => {
      effects += 1;
      if (again === retry) throw new Error('broken pipe');
      return effects;
    };
    const run = await runWith([again], { effect, invoke });
    expect((await run.exec('tool')).record.status).toBe('failed');
    expect(effects).toBe(1);
  });
});

describe('an interceptor that is interrupted before it called next()', () => {
  it('leaves no doubt: the effect did not take place, and does not later', async () => {
    let effects = 0;
    const run = await runWith(
      [hesitant],
      { effect: 'state_change', invoke: () => (effects += 1) },
      { limits: { toolCallMs: 5 } },
    );
    const outcome = await run.exec('tool');
    await wait(40);
    expect([outcome.record.error?.code, effects]).toEqual(['timeout', 0]);
  });
});
