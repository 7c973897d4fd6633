import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as wait } from 'node:timers/promises';
import {
  BadRequestException,
  ForbiddenException,
  HttpException,
  InternalServerErrorException,
  NotFoundException,
  UnauthorizedException,
} from '@nestjs/common';
import { tool, ToolError } from '@toolloop/core';
import { ToolRunner } from '@toolloop/core/internal';
import { CallJournal } from '@toolloop/core/stores';
import type { LoopEventBody } from '@toolloop/protocol';
import type { ToolOutcome } from '../../src/call/outcome.js';
import { of } from 'rxjs';
import { toolOf } from '../tools/tools.js';
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
  await wait(10);
});

const policies = [{ allow: ['tool'] }];

/** A run of a tool that throws this. */
function runOf(thrown: unknown, options: RunOptions = {}) {
  const invoke = (): never => {
    throw thrown;
  };
  return bench.run({ tools: [toolOf({ id: 'tool', invoke })], policies, ...options });
}

const FIXED = 'The tool failed unexpectedly. Do not repeat the call with the same arguments.';

describe('what a tool throws', () => {
  it.each<[string, unknown]>([
    ['an error', new Error('password=hunter2 at 10.0.0.7')],
    [
      'an error of a kind of its own',
      Object.assign(new TypeError('hunter2'), { code: 'E_HUNTER2' }),
    ],
    ['text', 'hunter2'],
    ['an object', { message: 'hunter2' }],
    ['nothing', undefined],
    ['a symbol', Symbol('hunter2')],
  ])(
    'is told by a fixed text and a reference unless it was meant for the model: %s',
    async (_, thrown) => {
      const run = runOf(thrown);
      const outcome = await run.exec('tool');
      const reference = outcome.record.error?.correlationId;
      expect(errorOf(outcome)).toEqual({
        status: '500',
        code: 'execution_failed',
        title: 'Tool failed',
        detail: `${FIXED} (Reference ${reference})`,
      });
      expect(reference).toMatch(/^[0-9a-f-]{36}$/);
      expect(JSON.stringify([outcome, run.events])).not.toMatch(/hunter2|10\.0\.0\.7/i);
      expect(outcome).not.toHaveProperty('live');
    },
  );

  it('is in the log, with its stack, under the reference the model was given', async () => {
    const thrown = new Error('hunter2');
    const { record } = await runOf(thrown).exec('tool');
    expect(bench.logger.errors()).toEqual([
      {
        level: 'error',
        message: `tool failed (run run_1, call call_1, reference ${record.error?.correlationId}).`,
        details: expect.arrayContaining([thrown]),
      },
    ]);
  });

  it('reaches the model as it stands when it is a ToolError, and is not logged as a failure', async () => {
    const outcome = await runOf(
      new ToolError('The order is shipped; ask for a return.', {
        retryable: true,
        cause: new Error('hunter2'),
      }),
    ).exec('tool');
    expect(errorOf(outcome)).toMatchObject({
      code: 'execution_failed',
      detail: 'The order is shipped; ask for a return.',
    });
    expect(outcome.record).toMatchObject({ status: 'failed', error: { retryable: true } });
    expect(outcome.content).not.toContain('hunter2');
    expect(bench.logger.errors()).toEqual([]);
  });

  it('is as long as the model has the patience for', async () => {
    const outcome = await runOf(new ToolError('x'.repeat(1_000_000))).exec('tool');
    expect(errorOf(outcome).detail).toBe(`${'x'.repeat(2000)}…`);
  });

  it.each<[HttpException, string, string, string]>([
    [new BadRequestException('No such date.'), 'execution_failed', '500', 'failed'],
    [new NotFoundException('No such order.'), 'execution_failed', '500', 'failed'],
    [new HttpException('I am a teapot.', 418), 'execution_failed', '500', 'failed'],
    [new UnauthorizedException('Sign in.'), 'forbidden', '403', 'denied'],
    [new ForbiddenException('Not your order.'), 'forbidden', '403', 'denied'],
  ])(
    'is told to the model when it is a 4xx of Nest: %s',
    async (thrown, code, status, recorded) => {
      const outcome = await runOf(thrown).exec('tool');
      expect(errorOf(outcome)).toMatchObject({ code, status, detail: thrown.message });
      expect(outcome.record.status).toBe(recorded);
    },
  );

  it.each([
    new InternalServerErrorException('hunter2'),
    new HttpException('hunter2', 302),
    new HttpException('hunter2', 0),
  ])('stays hidden when it is any other exception of Nest: %s', async (thrown) => {
    const outcome = await runOf(thrown).exec('tool');
    expect(outcome.record.error?.correlationId).toBeDefined();
    expect(outcome.content).not.toContain('hunter2');
    expect(bench.logger.errors()).toHaveLength(1);
  });
});

describe('ToolRunner.exec', () => {
  const revoked = Proxy.revocable({}, {});
  revoked.revoke();

  it.each<[string, unknown]>([
    ['something that cannot be looked at', revoked.proxy],
    [
      'an error whose message throws',
      Object.defineProperty(new ToolError('x'), 'safeMessage', {
        get: () => JSON.parse('{') as string,
      }),
    ],
    ['an error whose message is no text', new ToolError(1n as unknown as string)],
    ['itself', new Proxy(new Error('x'), { getPrototypeOf: () => JSON.parse('{') as null })],
  ])('never throws: a tool throws %s', async (_, thrown) => {
    const outcome = await runOf(thrown).exec('tool');
    expect(outcome.record).toMatchObject({ status: 'failed', error: { code: 'execution_failed' } });
    expect(errorOf(outcome).detail).toContain(FIXED);
  });

  it.each<[string, (event: LoopEventBody) => void | Promise<void>]>([
    ['rejects', () => Promise.reject(new Error('the reader is gone'))],
    [
      'throws',
      () => {
        throw new Error('the reader is gone');
      },
    ],
  ])('never throws, and loses nothing: emit %s', async (_, emit) => {
    let effects = 0;
    const made = toolOf({ id: 'tool', effect: 'state_change', invoke: () => (effects += 1) });
    const outcome = await bench.run({ tools: [made], policies, emit }).exec('tool');
    expect([outcome.record.status, outcome.content, effects]).toEqual(['succeeded', '1', 1]);
    expect(bench.logger.errors().map(({ message }) => message)).toEqual([
      'An event of run run_1 could not be shown.',
      'An event of run run_1 could not be shown.',
      'An event of run run_1 could not be shown.',
    ]);
  });

  it('announces a call once, even when the first announcement could not be shown', async () => {
    const types: string[] = [];
    const emit = ({ type }: LoopEventBody): Promise<void> => {
      types.push(type);
      return Promise.reject(new Error('the reader is gone'));
    };
    await bench.run({ tools: [toolOf({ id: 'tool' })], policies, emit }).exec('tool');
    expect(types).toEqual(['tool-call', 'tool-start', 'tool-result']);
  });

  it('never throws: the logger does', async () => {
    bench.logger.error = () => {
      throw new Error('disk full');
    };
    expect((await runOf(new Error('x')).exec('tool')).record.status).toBe('failed');
  });

  it.each<[string, Partial<ReturnType<typeof toolOf>>]>([
    [
      'its input',
      { input: { ...toolOf({ id: 'tool' }).input, read: () => JSON.parse('{') as never } },
    ],
    ['its output', { output: { project: () => JSON.parse('{') as never } }],
  ])('never throws: %s does', async (_, broken) => {
    const made = { ...toolOf({ id: 'tool' }), ...broken };
    expect((await bench.run({ tools: [made], policies }).exec('tool')).record.status).toBe(
      'failed',
    );
  });

  it('never throws: the journal throws without a promise', async () => {
    const journal: Partial<CallJournal> = { acquire: () => JSON.parse('{') as never };
    const broken = await Bench.start({ ports: [{ provide: CallJournal, useValue: journal }] });
    const made = toolOf({ id: 'tool', effect: 'state_change' });
    expect((await broken.run({ tools: [made], policies }).exec('tool')).record.status).toBe(
      'waiting',
    );
  });

  it('never throws, whatever stands for arguments', async () => {
    const { scope } = bench.run({ tools: [toolOf({ id: 'tool' })], policies });
    const outcomes: ToolOutcome[] = [];
    for (const args of [undefined, null, 1, {}, [], Symbol('x')]) {
      const call = { toolCallId: 'c', name: 'tool', arguments: args as string };
      outcomes.push(await bench.module.get(ToolRunner).exec({ call, step: 1, index: 0 }, scope));
    }
    expect(outcomes.map(({ record }) => record.status)).toEqual(outcomes.map(() => 'failed'));
  });
});

describe('a result that says it is a failure, where the tool says so', () => {
  interface Answer {
    readonly success: boolean;
    readonly error?: string;
  }
  const failed = ({ success, error }: Answer): boolean | string => !success && (error ?? true);
  const declared = { description: 'x', effect: 'state_change', reveal: 'all' } as const;

  it.each<[string, unknown, string]>([
    ['in words of its own', { success: false, error: 'No such order.' }, 'No such order.'],
    ['without words', { success: false }, 'The tool says that it has failed.'],
    ['as the last value of a stream', of(1, { success: false, error: 'Too late.' }), 'Too late.'],
    ['as a promise', Promise.resolve({ success: false, error: 'Later.' }), 'Later.'],
  ])('fails the call: %s', async (_, result, safeMessage) => {
    const raw = tool({ ...declared, id: 'raw', failed, execute: () => result });
    const outcome = await (await Bench.start({ options: { tools: [raw] } })).run().exec('raw');
    expect(outcome.record).toMatchObject({
      status: 'failed',
      error: { code: 'execution_failed', safeMessage },
    });
  });

  it('is a result as any other where the tool does not say so, or it succeeded', async () => {
    const silent = tool({ ...declared, id: 'silent', execute: () => ({ success: false }) });
    const fine = tool({ ...declared, id: 'fine', failed, execute: () => ({ success: true }) });
    const run = (await Bench.start({ options: { tools: [silent, fine] } })).run();
    expect((await run.exec('silent')).record).toMatchObject({
      status: 'succeeded',
      result: { success: false },
    });
    expect((await run.exec('fine')).record).toMatchObject({
      status: 'succeeded',
      result: { success: true },
    });
  });

  it('says nothing about the effect where it cannot be asked', async () => {
    const raw = tool({
      ...declared,
      id: 'raw',
      failed: () => JSON.parse('{') as never,
      execute: () => ({ success: false }),
    });
    const { record } = await (await Bench.start({ options: { tools: [raw] } })).run().exec('raw');
    expect(record.error).toMatchObject({
      code: 'invalid_output',
      safeMessage: expect.stringContaining('Its effect took place'),
    });
  });
});
