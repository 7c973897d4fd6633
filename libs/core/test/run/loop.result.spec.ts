import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { type LoopResult, RunError } from '@toolloop/core';
import { ScriptedModel, call, calls, collect, text } from '@toolloop/testing';
import { IsString } from 'class-validator';
import { resultOf } from '../fixtures/played-run.js';
import { Customer } from '../fixtures/shop.js';
import { ask, openShop } from '../fixtures/shop.module.js';

/**
 * Seen by the model alone: a field for the model, the reasoning, and what the tools were told by
 * the application.
 */
const SECRET = 'ann@acme.example';

async function resultOfRun(
  last = text('Done.', { reasoning: `${SECRET} thought` }),
): Promise<LoopResult> {
  const model = new ScriptedModel([
    calls(call('probe__customer', { key: 'ann' })),
    calls(call('customer_ann_getAverageSpend')),
    last,
  ]);
  const handle = (await openShop(model)).open(
    ask({ context: { act: (key: string) => new Customer(key, key), note: SECRET } }),
  );
  const result = await resultOf(handle);
  expect(JSON.stringify(result.messages)).toContain(SECRET);
  return result;
}

describe('a result that a controller returns', () => {
  it('shows what the ui may see', async () => {
    const json = JSON.parse(JSON.stringify(await resultOfRun())) as Record<string, unknown>;
    expect(json).toMatchObject({
      text: 'Done.',
      finishReason: 'stop',
      steps: 3,
      usage: { inputTokens: 30, outputTokens: 15 },
      injectedTools: ['customer_ann_getAverageSpend', 'customer_ann_getRecentOrders'],
    });
    expect(json['toolCalls']).toMatchObject([
      {
        declaredId: 'probe__customer',
        args: { key: 'ann' },
        result: { id: 'ann', name: 'ann' },
        status: 'succeeded',
        startedAt: expect.any(String),
      },
      {
        declaredId: 'customer_*_getAverageSpend',
        entity: { provider: 'Customer', instanceId: 'ann' },
      },
    ]);
    expect(Object.keys(json).toSorted()).toEqual([
      'finishReason',
      'injectedTools',
      'runId',
      'steps',
      'text',
      'toolCalls',
      'usage',
    ]);
  });

  it.each<[string, (result: LoopResult) => unknown]>([
    ['JSON.stringify', (result) => JSON.stringify(result)],
    ['JSON.stringify within a list', (result) => JSON.stringify([{ result }])],
    ['util.inspect', (result) => inspect(result, { depth: Infinity })],
    [
      'util.inspect of what is hidden',
      (result) => inspect(result, { depth: Infinity, showHidden: true }),
    ],
    ['spreading it', (result) => JSON.stringify({ ...result })],
    ['Object.entries', (result) => JSON.stringify(Object.entries(result))],
    ['Object.assign', (result) => inspect(Object.assign({}, result), { depth: Infinity })],
    [
      'for … in',
      (result) => {
        const names: string[] = [];
        for (const name in result) names.push(name);
        return names.join() + (names.includes('messages') ? SECRET : '');
      },
    ],
    [
      'its property descriptors',
      (result) => inspect(Object.getOwnPropertyDescriptors(result), { depth: Infinity }),
    ],
    [
      'structuredClone',
      (result) => inspect(structuredClone({ ...result, toJSON: undefined }), { depth: Infinity }),
    ],
    [
      'the error of a run that failed',
      (result) =>
        inspect(new RunError(result), { depth: Infinity }) + JSON.stringify(new RunError(result)),
    ],
  ])('leaks nothing that the model alone may see by %s', async (_, leak) => {
    expect(String(leak(await resultOfRun()))).not.toContain(SECRET);
  });

  it('has its messages all the same', async () => {
    const result = await resultOfRun();
    expect(result.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'tool',
      'assistant',
    ]);
    expect(Object.keys(result)).not.toContain('messages');
  });

  it('leaks nothing through its events either', async () => {
    const model = new ScriptedModel([
      calls(call('probe__customer', { key: 'ann' })),
      text('Done.'),
    ]);
    const loop = await openShop(model);
    const events = await collect(
      loop.stream(ask({ context: { act: (key: string) => new Customer(key, key) } })),
    );
    expect(JSON.stringify(events)).not.toContain(SECRET);
    expect(JSON.stringify(model.requests.map(({ messages }) => messages))).toContain(SECRET);
  });

  it('shows an error that is safe, and its reference', async () => {
    const result = await resultOfRun(text('', { reason: 'incomplete' }));
    expect(JSON.parse(JSON.stringify(result))).toMatchObject({
      finishReason: 'error',
      error: { code: 'model_incomplete' },
    });
  });

  it('shows an answer of a class as JSON', async () => {
    class Answer {
      @IsString() summary!: string;
    }
    const result = await (
      await openShop(new ScriptedModel([text('{"summary":"Fine."}')]))
    ).run(ask({ output: Answer }));
    expect(JSON.parse(JSON.stringify(result))).toMatchObject({
      output: { summary: 'Fine.' },
      text: '{"summary":"Fine."}',
    });
  });
});
