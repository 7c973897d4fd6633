import { describe, expect, it } from '@jest/globals';
import { LanguageModel, ModelError, fallback, priced, retried, type ModelEvent } from '@toolloop/core';
import { ScriptedModel } from '@toolloop/testing';
import { ask, openShop } from '../fixtures/shop.module.js';
import { hear } from './reading.js';

/** Reports 1,000 tokens, and fails or says something. */
class CostlyModel extends LanguageModel {
  readonly provider = 'costly';
  readonly modelId = 'costly';
  private asked = 0;

  constructor(private readonly failures: number) {
    super();
  }

  async *stream(): AsyncGenerator<ModelEvent, void, undefined> {
    this.asked += 1;
    yield { type: 'usage', usage: { inputTokens: 1_000, outputTokens: 0 } };
    if (this.asked <= this.failures) throw await Promise.resolve(new ModelError('Busy.', { retryable: true }));
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

describe('prices of a model', () => {
  it('are refused where they are none', () => {
    expect(() => priced(new ScriptedModel([]), { script: { inputPerMillion: 1, output: 4 } as never })).toThrow('has no "output"');
    expect(() => priced(new ScriptedModel([]), { script: null as never })).toThrow('The price of script is null.');
  });

  it('fill what inner ones leave open', async () => {
    const inner = priced(new CostlyModel(0), {});
    const heard = await hear(priced(inner, { costly: { inputPerMillion: 10, outputPerMillion: 0 } }));
    expect(JSON.stringify(heard)).toContain('"costUsd":0.01');
  });
});

describe('a stop condition', () => {
  it('that is no function is refused', async () => {
    const loop = await openShop(new ScriptedModel([]));
    expect(() => loop.open(ask({ stopWhen: { steps: 1 } as never }))).toThrow('A stop condition is no function.');
  });
});
