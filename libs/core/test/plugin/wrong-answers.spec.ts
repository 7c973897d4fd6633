import { describe, expect, it } from '@jest/globals';
import type { Provider } from '@nestjs/common';
import { type Policy, tool, ToolLoopService } from '@toolloop/core';
import type { CallOutcome, OpenedCall, Plugin, ResultChange } from '@toolloop/core/plugin';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { having } from '../fixtures/plugins.js';
import { play, resultOf, resultsIn } from '../fixtures/played-run.js';
import { ask, openModule } from '../fixtures/shop.module.js';

const CARD = '4111111111111111';

const plain = (id: string, effect: 'read_only' | 'state_change', execute: () => string) =>
  tool({
    id,
    description: 'Does it.',
    effect,
    reveal: 'all',
    input: { type: 'object', properties: {} },
    execute,
  });

const charged: string[] = [];
const look = plain('cards__look', 'read_only', () => `His card is ${CARD}.`);
const charge = plain('cards__charge', 'state_change', () => String(charged.push('charged')));

/** A promise of a library that is no `Promise`, and is never kept. */
class Never {
  // oxlint-disable-next-line unicorn/no-thenable -- that is what it is
  then(): void {}
}

/** The hook of a plugin in JavaScript, which no compiler has looked at. */
const untyped = (hook: unknown): Plugin => hook as Plugin;

async function shop(
  plugins: readonly Provider[],
  policy: Policy = { version: 'v1', allow: ['*'], flow: 'off' },
) {
  const module = await openModule(
    new ScriptedModel([
      calls(call('cards__look', {})),
      calls(call('cards__charge', {})),
      text('.'),
    ]),
    {
      policy,
      tools: [look, charge],
      audit: { key: 'k'.repeat(32) },
      providers: plugins,
      limits: { pluginMs: 50 },
    },
  );
  const logged: unknown[] = [];
  module.useLogger({
    log: () => undefined,
    warn: () => undefined,
    error: (...said: unknown[]) => void logged.push(said),
  });
  return { loop: module.get(ToolLoopService), logged };
}

const cyclic: Record<string, unknown> = {};
cyclic['self'] = cyclic;

const WRONG: readonly (readonly [string, unknown])[] = [
  ['a text', 'masked'],
  ['a number', 7],
  ['true', true],
  ['null', null],
  ['a list', ['x']],
  ['a member of another name', { contents: 'x' }],
  ['content that is a number', { content: 7 }],
  ['content of numbers', { content: [7] }],
  ['a part of no known type', { content: [{ type: 'txt' }] }],
  ['a part of text without text', { content: [{ type: 'text' }] }],
  ['an image without an address', { content: [{ type: 'image' }] }],
  ['a result that is a bigint', { result: 10n }],
  ['a result in a circle', { result: cyclic }],
  ['a failure of a call that succeeded', { error: { safeMessage: 'No.' } }],
];

const reveal = (_call: OpenedCall, { record }: CallOutcome): ResultChange => ({
  content: JSON.stringify(record.result ?? null),
});

const late = async (): Promise<never> => {
  await Promise.resolve();
  throw new Error('metrics down');
};

const broken = (): never => {
  throw new Error('no connection');
};

describe('a plugin that changes a result', () => {
  it.each(WRONG)('lets nothing of it out if it answers with %s', async (_name, answer) => {
    const { loop } = await shop([having('acme.mask', untyped({ result: () => answer }))]);
    const { result, events } = await play(loop, ask());
    expect(JSON.stringify([result.messages, result.toolCalls, events])).not.toContain(CARD);
  });

  it.each([undefined, {}])('leaves it as it is if it answers with %p', async (answer) => {
    const { loop } = await shop([having('acme.mask', untyped({ result: () => answer }))]);
    const { result } = await play(loop, ask());
    expect(resultsIn(result.messages)[0]).toContain(CARD);
  });

  it('cannot write into the outcome that it was given', async () => {
    const { loop } = await shop([
      having(
        'acme.mask',
        untyped({
          result: (_call: OpenedCall, { record }: CallOutcome) =>
            Object.assign(record, { result: 'masked' }),
        }),
      ),
    ]);
    const { result, events } = await play(loop, ask());
    expect(JSON.stringify([result.messages, result.toolCalls, events])).not.toContain(CARD);
    expect(result.toolCalls[0]?.status).toBe('failed');
  });

  it('shows the model nothing that is hidden from it', async () => {
    charged.length = 0;
    const { loop } = await shop([having('acme.reveal', { result: reveal })], {
      version: 'v1',
      allow: ['*'],
      flow: 'values',
    });
    const result = await resultOf(loop.open(ask()));
    expect(resultsIn(result.messages)).not.toContainEqual(expect.stringContaining(CARD));
    expect(resultsIn(result.messages)[0]).toMatch(/^⟦v-/);
  });

  it('makes no run less strict if it shows what it was shown', async () => {
    charged.length = 0;
    const { loop } = await shop([having('acme.reveal', { result: reveal })], {
      version: 'v1',
      allow: ['*'],
      flow: 'taint',
    });
    const result = await resultOf(loop.open(ask()));
    expect([result.finishReason, charged]).toEqual(['waiting', []]);
  });
});

describe('a plugin that answers later where no answer is waited for', () => {
  it('is logged if it rejects in `started`, and the process lives', async () => {
    const { loop, logged } = await shop([having('acme.late', untyped({ started: late }))]);
    const { result } = await play(loop, ask());
    expect(result.finishReason).toBe('stop');
    expect(String(logged[0])).toContain('"acme.late" failed at "started"');
  });

  it('denies the call if it rejects in `judge`', async () => {
    const { loop } = await shop([having('acme.late', untyped({ judge: late }))]);
    const { result } = await play(loop, ask());
    expect(result.toolCalls[0]?.status).toBe('denied');
  });

  it.each([
    ['a promise', () => Promise.resolve(false)],
    ['a rejection', late],
    ['a text', () => 'no'],
    ['0', () => 0],
  ])('ends the run if it answers `open` with %s', async (_name, open) => {
    const { loop } = await shop([having('acme.late', untyped({ open }))]);
    await expect(loop.run(ask())).rejects.toMatchObject({
      cause: expect.objectContaining({ message: expect.stringContaining('"acme.late" failed') }),
    });
  });
});

const REFUSALS: readonly (readonly [string, unknown])[] = [
  ['a text', 'no'],
  ['no message', { code: 'forbidden' }],
  ['a message that is a number', { code: 'forbidden', safeMessage: 7 }],
  ['no code', { safeMessage: 'No.' }],
  ['a code that no one knows', { code: 'nope', safeMessage: 'No.' }],
  ['a code that would be a lie', { code: 'unknown_outcome', safeMessage: 'No.' }],
  ['problems that are none', { code: 'invalid_args', safeMessage: 'No.', problems: ['x'] }],
];

describe('a plugin that refuses calls', () => {
  it.each(REFUSALS)(
    'keeps the call from being made if it answers with %s',
    async (_name, answer) => {
      charged.length = 0;
      const { loop, logged } = await shop([
        having('acme.odd', untyped({ beforeEffect: () => answer })),
      ]);
      const { result } = await play(loop, ask());
      expect(result.toolCalls.map(({ error }) => error?.code)).toEqual([
        'execution_failed',
        'execution_failed',
      ]);
      expect(charged).toEqual([]);
      expect(String(logged[0])).toContain('"acme.odd" failed at "beforeEffect"');
    },
  );

  it('is told to the model in its own words, without members that have no meaning', async () => {
    const refusal = { code: 'forbidden', safeMessage: 'Not at night.', secret: CARD };
    const { loop } = await shop([having('acme.hours', untyped({ beforeEffect: () => refusal }))]);
    const { result } = await play(loop, ask());
    expect(result.toolCalls[0]?.error).toEqual({ code: 'forbidden', safeMessage: 'Not at night.' });
  });

  it('ends no run if the detail of its end is no text', async () => {
    const { loop } = await shop([
      having('acme.odd', untyped({ stepped: () => ({ reason: 'stop', detail: { a: 1 } }) })),
    ]);
    await expect(loop.run(ask())).rejects.toMatchObject({
      cause: expect.objectContaining({ message: expect.stringContaining('"acme.odd"') }),
    });
  });

  it('is given up after its time if it answers with a promise of another library', async () => {
    const { loop } = await shop([
      having('acme.slow', untyped({ beforeEffect: () => new Never() })),
    ]);
    const { result } = await play(loop, ask());
    expect(result.toolCalls[0]).toMatchObject({ status: 'failed' });
  });

  it.each(['beforeEffect', 'record'])('is named in the log if it fails at %s', async (point) => {
    const { loop, logged } = await shop([having('acme.broken', untyped({ [point]: broken }))]);
    const { result } = await play(loop, ask());
    expect(result.toolCalls[0]?.status).toBe('failed');
    expect(String(logged[0])).toContain(`"acme.broken" failed at "${point}"`);
  });

  it.each([7, true, {}, [null], 'no'])('is named if it answers `admit` with %p', async (answer) => {
    const { loop } = await shop([having('acme.odd', untyped({ admit: () => answer }))]);
    await expect(loop.run(ask())).rejects.toMatchObject({
      cause: expect.objectContaining({ message: expect.stringContaining('"acme.odd"') }),
    });
  });
});
