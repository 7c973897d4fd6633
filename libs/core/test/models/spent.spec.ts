import { describe, expect, it } from '@jest/globals';
import { LanguageModel, ModelError } from '@toolloop/core';
import { fallback, priced, retried } from '@toolloop/core/models';
import type { ModelEvent } from '@toolloop/protocol';
import { ScriptedModel, call, calls } from '@toolloop/testing';
import { ask, openShop } from '../fixtures/shop.module.js';
import { hear } from './reading.js';

/**
 * Reports 1,000 tokens, what each attempt cost as far as it is told, and fails or says something.
 */
class CostlyModel extends LanguageModel {
  readonly provider = 'costly';
  readonly modelId = 'costly';
  private asked = 0;

  constructor(
    private readonly failures: number,
    private readonly costs: readonly (number | undefined)[] = [],
  ) {
    super();
  }

  async *stream(): AsyncGenerator<ModelEvent, void, undefined> {
    this.asked += 1;
    const costUsd = this.costs[this.asked - 1];
    yield {
      type: 'usage',
      usage: { inputTokens: 1_000, outputTokens: 0, ...(costUsd !== undefined && { costUsd }) },
    };
    if (this.asked <= this.failures)
      throw await Promise.resolve(new ModelError('Busy.', { retryable: true }));
    yield { type: 'text-delta', text: 'Hello.' };
    yield { type: 'finish', finishReason: 'stop' };
  }
}

describe('what failed attempts have used', () => {
  it.each([
    ['retried', 3_000, () => retried(new CostlyModel(2), { firstWaitMs: 0 })],
    ['retried in vain', 3_000, () => retried(new CostlyModel(9), { firstWaitMs: 0, attempts: 3 })],
    ['fallback', 2_000, () => fallback([new CostlyModel(1), new CostlyModel(0)])],
  ])('is used: %s', async (_name, tokens, make) => {
    const handle = (await openShop(new ScriptedModel([]))).open(ask({ model: make() }));
    const result = await handle.result.catch((error: { result: unknown }) => error.result);
    expect(result).toMatchObject({ usage: { inputTokens: tokens } });
  });
});

describe('the unknown cost of one of several attempts', () => {
  const late = (costs: readonly (number | undefined)[]) =>
    retried(new CostlyModel(costs.length - 1, costs), { firstWaitMs: 0 });
  const behind = (first: number | undefined, second: number | undefined) =>
    fallback([new CostlyModel(1, [first]), new CostlyModel(0, [second])]);

  it.each<[string, LanguageModel, string]>([
    ['fallback, the first', behind(undefined, 1), '"costUsd":1,"hasUnknownCost":true'],
    ['fallback, the last', behind(1, undefined), '"costUsd":1,"hasUnknownCost":true'],
    ['retried, the first of three', late([undefined, 1, 1]), '"costUsd":2,"hasUnknownCost":true'],
    [
      'one within another',
      fallback([late([undefined, 1]), new CostlyModel(0)]),
      '"costUsd":1,"hasUnknownCost":true',
    ],
    ['nowhere', behind(1, 1), '"costUsd":2}'],
  ])('is told: %s', async (_, model, told) => {
    expect(JSON.stringify(await hear(model))).toContain(told);
  });

  it('is priced with the others where none is told', async () => {
    const prices = { costly: { inputPerMillion: 10, outputPerMillion: 0 } };
    expect(JSON.stringify(await hear(priced(behind(undefined, undefined), prices)))).toContain(
      '"costUsd":0.02}',
    );
  });

  it('takes a run beyond its limit, and keeps what is known', async () => {
    const after = new ScriptedModel([calls(call('probe__read', { key: 'a' }))]);
    const model = fallback([
      new CostlyModel(1),
      priced(after, { [after.modelId]: { inputPerMillion: 100_000, outputPerMillion: 0 } }),
    ]);
    const result = await (
      await openShop(new ScriptedModel([]))
    ).open(ask({ model, limits: { usd: 50 } })).result;
    expect(result).toMatchObject({
      finishReason: 'budget',
      finishDetail: expect.stringContaining('is not known'),
      usage: { costUsd: 1 },
    });
  });
});

describe('prices of a model', () => {
  it('are refused where they are none', () => {
    expect(() =>
      priced(new ScriptedModel([]), { script: { inputPerMillion: 1, output: 4 } as never }),
    ).toThrow('There is no price "output".');
    expect(() => priced(new ScriptedModel([]), { script: null as never })).toThrow(
      'prices "script": Its options are null.',
    );
  });

  it('fill what inner ones leave open', async () => {
    const inner = priced(new CostlyModel(0), {});
    const heard = await hear(
      priced(inner, { costly: { inputPerMillion: 10, outputPerMillion: 0 } }),
    );
    expect(JSON.stringify(heard)).toContain('"costUsd":0.01');
  });
});

describe('a stop condition', () => {
  it('is refused when it is not a function', async () => {
    const loop = await openShop(new ScriptedModel([]));
    expect(() => loop.open(ask({ stopWhen: { steps: 1 } as never }))).toThrow(
      'A stop condition is not a function.',
    );
  });
});
