import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ConfigurationError, ModelError } from '@toolloop/core';
import { rateLimited, type RateLimits } from '@toolloop/core/models';
import { hangs, ScriptedModel, text, type ScriptedTurn } from '@toolloop/testing';
import { hear, QUESTION } from './reading.js';

/** Ten answers; a request is seen in `model.requests` once it was let through. */
function limited(limits: RateLimits, turn: ScriptedTurn = text('Hello.')) {
  const model = new ScriptedModel(Array.from({ length: 10 }, () => turn));
  return { model, subject: rateLimited(model, limits) };
}

/** Lets everything happen that needs no time. */
async function settle(): Promise<void> {
  await jest.advanceTimersByTimeAsync(0);
}

describe('rateLimited', () => {
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  it('lets so many requests go in any minute, and the others in their order', async () => {
    const { model, subject } = limited({ requestsPerMinute: 2 });
    const order: number[] = [];
    const all = Array.from({ length: 5 }, async (_, index) => {
      await hear(subject);
      order.push(index);
    });
    await settle();
    expect(model.requests).toHaveLength(2);
    await jest.advanceTimersByTimeAsync(59_000);
    expect(model.requests).toHaveLength(2);
    await jest.advanceTimersByTimeAsync(2_000);
    expect(model.requests).toHaveLength(4);
    await jest.advanceTimersByTimeAsync(60_000);
    await Promise.all(all);
    expect(order).toEqual([0, 1, 2, 3, 4]);
  });

  it('lets requests go as long as the tokens of the last minute are fewer', async () => {
    const { model, subject } = limited({ tokensPerMinute: 30 });
    for (let count = 0; count < 2; count += 1) await hear(subject);
    const third = hear(subject);
    await settle();
    expect(model.requests).toHaveLength(2);
    await jest.advanceTimersByTimeAsync(61_000);
    expect((await third).text).toBe('Hello.');
  });

  it('expects of a request under way what the others used', async () => {
    const model = new ScriptedModel([text('Hello.'), hangs('Hel'), hangs('Hel'), hangs('Hel')]);
    const subject = rateLimited(model, { tokensPerMinute: 31 });
    await hear(subject);
    for (let count = 0; count < 3; count += 1) void hear(subject);
    await settle();
    // 15 were used, and twice 15 are expected.
    expect(model.requests).toHaveLength(3);
  });

  it('lets so many go at the same time, and the next when one ends, however it ends', async () => {
    const { model, subject } = limited({ concurrent: 1 }, hangs('Hel'));
    const [first, second] = [new AbortController(), new AbortController()];
    void hear(subject, QUESTION, first.signal);
    void hear(subject, QUESTION, second.signal);
    await settle();
    expect(model.requests).toHaveLength(1);
    first.abort();
    await settle();
    expect(model.requests).toHaveLength(2);
  });

  it('lets a request that is aborted leave the queue, and leaves nothing on its signal', async () => {
    const { model, subject } = limited({ concurrent: 1, queue: 1 }, hangs('Hel'));
    const [first, second, third] = [
      new AbortController(),
      new AbortController(),
      new AbortController(),
    ];
    void hear(subject, QUESTION, first.signal);
    const waiting = hear(subject, QUESTION, second.signal);
    await settle();
    second.abort();
    expect((await waiting).events).toEqual([]);
    void hear(subject, QUESTION, third.signal);
    first.abort();
    await settle();
    expect(model.requests).toHaveLength(2);
    expect(model.openStreams).toBe(1);
  });

  it('fails at once where the queue is full, and says that it may pass', async () => {
    const { subject } = limited({ concurrent: 1, queue: 1 }, hangs('Hel'));
    void hear(subject);
    void hear(subject);
    await settle();
    const { error } = await hear(subject);
    expect(error).toBeInstanceOf(ModelError);
    expect(error).toMatchObject({
      isRetryable: true,
      message: '1 requests to scripted/script are waiting already, which is the maximum.',
    });
  });

  it.each([0, -1, Number.NaN])('takes no limit of %p', (requestsPerMinute) => {
    expect(() => limited({ requestsPerMinute })).toThrow(ConfigurationError);
  });
});
