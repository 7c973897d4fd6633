import { describe, expect, it } from '@jest/globals';
import { ModelError, type Usage } from '@toolloop/core';
import { fallback, type ModelPrices, priced } from '@toolloop/core/models';
import type { ModelEvent } from '@toolloop/protocol';
import { events, fails, ScriptedModel, text } from '@toolloop/testing';
import { play } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';
import { hear } from './reading.js';

const PRICES: ModelPrices = {
  small: {
    inputPerMillion: 1,
    cachedInputPerMillion: 0.1,
    cacheWriteInputPerMillion: 2,
    outputPerMillion: 10,
  },
  'scripted/plain': { inputPerMillion: 4, outputPerMillion: 8 },
};

async function costOf(modelId: string, usage: Usage): Promise<number | undefined> {
  const model = new ScriptedModel([text('Hi', { usage })], { modelId });
  const { events: seen } = await hear(priced(model, PRICES));
  return seen.find(
    (event): event is Extract<ModelEvent, { type: 'usage' }> => event.type === 'usage',
  )?.usage.costUsd;
}

describe('prices', () => {
  it.each<[string, string, Usage, number | undefined]>([
    [
      'each kind of token at its own',
      'small',
      { inputTokens: 1_000, outputTokens: 100, cachedInputTokens: 500, cacheWriteInputTokens: 200 },
      0.00175,
    ],
    [
      'the cache as input where nothing else is said',
      'plain',
      { inputTokens: 1_000, outputTokens: 0, cachedInputTokens: 500 },
      0.004,
    ],
    [
      'nothing for a model without one',
      'other',
      { inputTokens: 1_000, outputTokens: 100 },
      undefined,
    ],
    [
      'what the provider itself says first',
      'small',
      { inputTokens: 1_000, outputTokens: 100, costUsd: 7 },
      7,
    ],
    [
      'no less than nothing for counts that contradict each other',
      'plain',
      { inputTokens: 0, outputTokens: 0, cachedInputTokens: 100 },
      0.0004,
    ],
  ])('reckon %s', async (_what, modelId, usage, cost) => {
    expect((await costOf(modelId, usage))?.toFixed(9)).toBe(cost?.toFixed(9));
  });

  it('are those of the model that answered', async () => {
    const first = new ScriptedModel([fails(new ModelError('Busy.', { retryable: true }))], {
      modelId: 'small',
    });
    const second = new ScriptedModel(
      [text('Hi', { usage: { inputTokens: 1_000_000, outputTokens: 0 } })],
      { modelId: 'plain' },
    );
    const { events: seen } = await hear(priced(fallback([first, second]), PRICES));
    expect(seen).toContainEqual({
      type: 'usage',
      usage: { inputTokens: 1_000_000, outputTokens: 0, costUsd: 4 },
    });
  });

  it("hold, as a module's, for every model of its runs", async () => {
    const own = new ScriptedModel(
      [text('Done.', { usage: { inputTokens: 500_000, outputTokens: 0 } })],
      { modelId: 'plain' },
    );
    const loop = await openShop(new ScriptedModel([]), { prices: PRICES });
    const { result } = await play(loop, ask({ model: own }));
    expect(result.usage.costUsd).toBe(2);
  });

  it.each([
    [
      { small: { inputPerMillion: -1, outputPerMillion: 1 } },
      'prices "small": The price "inputPerMillion" is -1.',
    ],
    [{ small: { inputPerMillion: 1 } }, 'prices "small": It has no "outputPerMillion".'],
    [
      { small: { inputPerMillion: 1, outputPerMillion: 1, outPerMillion: 2 } },
      'prices "small": There is no price "outPerMillion".',
    ],
  ])('stop the start when they are wrong', async (prices, problem) => {
    await expect(
      openShop(new ScriptedModel([]), { prices: prices as unknown as ModelPrices }),
    ).rejects.toThrow(problem);
  });

  it('change no other event', async () => {
    const exact: ModelEvent[] = [
      { type: 'text-delta', text: 'Hi' },
      { type: 'finish', finishReason: 'stop' },
    ];
    expect((await hear(priced(new ScriptedModel([events(exact)]), PRICES))).events).toEqual(exact);
  });
});
