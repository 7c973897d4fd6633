import { describe, expect, it } from '@jest/globals';
import { LanguageModel, ModelError } from '@toolloop/core';
import { retried } from '@toolloop/core/models';
import type { ModelEvent } from '@toolloop/protocol';
import { cut, fails, ScriptedModel, text } from '@toolloop/testing';
import { hear, QUESTION } from './reading.js';

const AT_ONCE = { firstWaitMs: 0 };
const busy = new ModelError('Busy.', { status: 529, retryable: true });

/** Breaks off behind the name of a call, and says it whole when it is asked again. */
class TornModel extends LanguageModel {
  readonly provider = 'torn';
  readonly modelId = 'torn';
  private asked = 0;

  async *stream(): AsyncGenerator<ModelEvent, void, undefined> {
    this.asked += 1;
    yield await Promise.resolve<ModelEvent>({
      type: 'tool-call',
      toolCallId: `call_${this.asked}`,
      name: 'look',
      arguments: '{}',
    });
    yield { type: 'usage', usage: { inputTokens: 3, outputTokens: 4 } };
    yield { type: 'finish', finishReason: this.asked === 1 ? 'incomplete' : 'tool_calls' };
  }
}

describe('retried', () => {
  it.each([
    ['a failure that passes', fails(busy)],
    ['an answer that broke off before its first word', cut()],
  ])('asks again after %s', async (_what, turn) => {
    const model = new ScriptedModel([turn, turn, text('Hello.')]);
    expect((await hear(retried(model, AT_ONCE))).text).toBe('Hello.');
    model.assertComplete();
  });

  it('asks again after an answer that broke off in a call of which nothing was shown', async () => {
    const { events } = await hear(retried(new TornModel(), AT_ONCE));
    expect(
      events.flatMap((event) => (event.type === 'tool-call' ? [event.toolCallId] : [])),
    ).toEqual(['call_2']);
    expect(events.at(-1)).toMatchObject({ type: 'finish', finishReason: 'tool_calls' });
  });

  it('gives up after so many attempts, with the last failure', async () => {
    const model = new ScriptedModel([fails(busy), fails(busy), fails(busy)]);
    expect((await hear(retried(model, { ...AT_ONCE, attempts: 3 }))).error).toBe(busy);
    expect(model.requests).toHaveLength(3);
  });

  it.each([
    ['a failure that does not pass', fails(new ModelError('No.', { status: 401 }))],
    ['what is no failure of a model', fails(new TypeError('Oh.') as ModelError)],
    ['an answer of which a word has reached the caller', fails(busy, 'Hel')],
  ])('does not ask again after %s', async (_what, turn) => {
    const model = new ScriptedModel([turn]);
    const { error } = await hear(retried(model, AT_ONCE));
    expect(error).toBeInstanceOf(Error);
    expect(model.requests).toHaveLength(1);
  });

  it('waits as long as the provider asks for', async () => {
    const asked = new ModelError('Slower.', { status: 429, retryable: true, retryAfterMs: 60 });
    const model = new ScriptedModel([fails(asked), text('Hello.')]);
    const began = performance.now();
    expect((await hear(retried(model, AT_ONCE))).text).toBe('Hello.');
    expect(performance.now() - began).toBeGreaterThanOrEqual(55);
  });

  it('does not wait for a provider that asks for too long', async () => {
    const asked = new ModelError('Tomorrow.', {
      status: 429,
      retryable: true,
      retryAfterMs: 86_400_000,
    });
    expect((await hear(retried(new ScriptedModel([fails(asked)])))).error).toBe(asked);
  });

  it('stops waiting with an abort', async () => {
    const model = new ScriptedModel([fails(busy)]);
    const controller = new AbortController();
    const hearing = hear(
      retried(model, { firstWaitMs: 60_000, longestWaitMs: 60_000 }),
      QUESTION,
      controller.signal,
    );
    setTimeout(() => controller.abort(), 20);
    expect((await hearing).events).toEqual([]);
    expect(model.requests).toHaveLength(1);
  });
});
