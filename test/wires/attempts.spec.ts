import { afterEach, describe, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import { anthropic } from '@toolloop/anthropic';
import {
  type LanguageModel,
  type Limits,
  type LoopResult,
  RunError,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { fallback, priced, rateLimited, retried } from '@toolloop/core/models';
import { openai } from '@toolloop/openai';
import {
  type Answer,
  answers,
  LocalProvider,
  streams,
} from '../../libs/wire/test/local-provider.js';

const HELLO = streams(
  'data: {"choices":[{"delta":{"content":"Hello."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
);
const BUSY = answers(503, '{"error":{"message":"Busy."}}', { 'retry-after-ms': '1' });
const LATER = answers(429, '{"error":{"message":"Later."}}', { 'retry-after': '300' });
const SILENT: Answer = () => undefined;
/** Shows that it is alive, and nothing else. */
const PINGS: Answer = (response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const timer = setInterval(() => response.write(': here\n\n'), 10);
  response.on('close', () => clearInterval(timer));
};
const QUICK = { firstWaitMs: 1 };
/** Long enough for a provider that answers, on a machine that is busy with other things as well. */
const PATIENT_MS = 1_000;

let providers: LocalProvider[] = [];
let module: TestingModule | undefined;

afterEach(async () => {
  await module?.close();
  for (const provider of providers) await provider[Symbol.asyncDispose]();
  providers = [];
});

async function play(...script: readonly Answer[]): Promise<LocalProvider> {
  const provider = await LocalProvider.start(...script);
  providers.push(provider);
  return provider;
}

const chat = ({ baseURL }: LocalProvider): LanguageModel => openai('own-1', { baseURL });
const messages = ({ origin }: LocalProvider): LanguageModel =>
  anthropic('own-1', { baseURL: origin });

async function run(model: LanguageModel, limits: Partial<Limits> = {}): Promise<LoopResult> {
  module = await Test.createTestingModule({
    imports: [ToolLoopModule.forRoot({ model })],
  }).compile();
  module.useLogger(false);
  await module.init();
  const running = module
    .get(ToolLoopService)
    .run({ prompt: 'Hi', actor: 'alice', tenant: 'acme', limits });
  return running.catch((error: unknown) => (error as RunError).result);
}

describe('the number of requests', () => {
  it.each<[string, (provider: LocalProvider) => LanguageModel, number]>([
    ['of a chat completion', chat, 3],
    ['of a message', messages, 3],
    ['of a model with prices', (provider) => priced(chat(provider), {}), 3],
    [
      'of a model with rate limits',
      (provider) => rateLimited(chat(provider), { concurrent: 1 }),
      3,
    ],
    ['within retried', (provider) => retried(chat(provider), { ...QUICK, attempts: 2 }), 2],
    [
      'within retried, rate limits and prices',
      (provider) => priced(rateLimited(retried(chat(provider), { attempts: 4 }), {}), {}),
      4,
    ],
    ['within a fallback of one', (provider) => fallback([chat(provider)]), 1],
    [
      'of retried within a fallback',
      (provider) => fallback([retried(messages(provider), { attempts: 2 })]),
      2,
    ],
  ])('%s that stays overloaded is that of one retry policy', async (_what, toModel, count) => {
    const provider = await play(BUSY);
    expect(await run(toModel(provider))).toMatchObject({
      finishReason: 'error',
      error: { code: 'model_error' },
    });
    expect(provider.requests).toHaveLength(count);
  });

  it('is one more than that of the failures where a provider recovers, with the same bytes each time', async () => {
    const provider = await play(BUSY, BUSY, HELLO);
    expect(await run(chat(provider))).toMatchObject({ finishReason: 'stop', text: 'Hello.' });
    expect(provider.requests).toHaveLength(3);
    expect(new Set(provider.requests.map(({ body }) => body)).size).toBe(1);
  });

  it.each<[string, Answer]>([
    ['a refused key', answers(401, '{"error":{"message":"No."}}')],
    ['a wait of 300 s that the provider asks for', LATER],
  ])('is one after %s', async (_what, answer) => {
    const provider = await play(answer, HELLO);
    expect(await run(chat(provider))).toMatchObject({ finishReason: 'error' });
    expect(provider.requests).toHaveLength(1);
  });
});

describe('the wait before another request', () => {
  it.each(['-5', '0', '0.001', 'Wed, 21 Oct 2015 07:28:00 GMT'])(
    'is not shortened by a Retry-After of %s',
    async (wait) => {
      const busy = answers(429, '{"error":{"message":"Busy."}}', { 'retry-after': wait });
      const askedAt: number[] = [];
      const timed =
        (answer: Answer): Answer =>
        (response, request) => {
          askedAt.push(performance.now());
          return answer(response, request);
        };
      const provider = await play(timed(busy), timed(HELLO));
      expect(await run(retried(chat(provider), { firstWaitMs: 200 }))).toMatchObject({
        finishReason: 'stop',
        text: 'Hello.',
      });
      const [first = 0, second = 0] = askedAt;
      expect(second - first).toBeGreaterThanOrEqual(95);
    },
  );
});

describe('the usage of an answer that fails', () => {
  const usage = { prompt_tokens: 30, completion_tokens: 2, cost: 0.5 };
  const error = { error: { message: 'Busy.', code: 503 } };
  const FAILS = streams(
    `data: ${JSON.stringify({ choices: [], usage })}\n\ndata: ${JSON.stringify(error)}\n\n`,
  );
  const failed = JSON.stringify({
    type: 'response.failed',
    response: {
      usage: { input_tokens: 30, output_tokens: 2, cost: 0.5 },
      error: { message: 'No.' },
    },
  });
  const started = JSON.stringify({
    type: 'message_start',
    message: { usage: { input_tokens: 30, output_tokens: 2 } },
  });

  it.each<[string, (provider: LocalProvider) => LanguageModel, Answer, object]>([
    [
      'a chat completion',
      (provider) => fallback([chat(provider)]),
      FAILS,
      { inputTokens: 30, outputTokens: 2, costUsd: 0.5 },
    ],
    [
      'a response',
      ({ baseURL }) => openai('own-1', { baseURL, api: 'responses' }),
      streams(`data: ${failed}\n\n`),
      { inputTokens: 30, outputTokens: 2, costUsd: 0.5 },
    ],
    [
      'a message that falls silent',
      (provider) => fallback([messages(provider)]),
      (response) => response.writeHead(200).write(`data: ${started}\n\n`),
      { inputTokens: 30, outputTokens: 2 },
    ],
  ])('counts for %s', async (_what, toModel, answer, expected) => {
    const provider = await play(answer);
    const result = await run(toModel(provider), { modelFirstByteMs: 10_000, modelIdleMs: 100 });
    expect(result.finishReason).not.toBe('stop');
    expect(result.usage).toMatchObject(expected);
  });

  it('counts for every attempt', async () => {
    const provider = await play(FAILS, FAILS, HELLO);
    const result = await run(retried(chat(provider), QUICK));
    expect(result).toMatchObject({
      finishReason: 'stop',
      usage: { inputTokens: 60, outputTokens: 4, costUsd: 1 },
    });
  });
});

describe('a provider that does not answer', () => {
  it.each<[string, Answer]>([
    ['is silent', SILENT],
    ['sends only headers', (response) => response.writeHead(200).flushHeaders()],
    ['asks for a wait of 300 s', LATER],
  ])('gives the next of a fallback its turn where it %s', async (_what, answer) => {
    const [first, second] = [await play(answer), await play(HELLO)];
    const result = await run(fallback([chat(first), chat(second)]), { modelIdleMs: PATIENT_MS });
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Hello.' });
    expect([first.requests.length, second.requests.length]).toEqual([1, 1]);
    if (answer !== LATER) await first.untilClosed();
  });

  it('gives the next of a fallback its turn where it is alive and sends no content, and is not asked again', async () => {
    const [first, second] = [await play(PINGS), await play(HELLO)];
    const result = await run(fallback([retried(chat(first), QUICK), chat(second)]), {
      modelFirstContentMs: PATIENT_MS,
    });
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Hello.' });
    expect([first.requests.length, second.requests.length]).toEqual([1, 1]);
    await first.untilClosed();
  });

  it.each<[string, (model: LanguageModel) => LanguageModel]>([
    ['retried', (model) => retried(model, QUICK)],
    ['the loop itself', (model) => model],
  ])('is asked again by %s where it was silent', async (_who, wrap) => {
    const provider = await play(SILENT, HELLO);
    expect(await run(wrap(chat(provider)), { modelIdleMs: PATIENT_MS })).toMatchObject({
      finishReason: 'stop',
      text: 'Hello.',
    });
    expect(provider.requests).toHaveLength(2);
  });

  it('ends the run with the limit that it reached in the last attempt', async () => {
    const provider = await play(SILENT);
    const model = chat(provider);
    await provider.warm(model);
    const result = await run(retried(model, { ...QUICK, attempts: 2 }), { modelIdleMs: 300 });
    expect(result).toMatchObject({
      finishReason: 'timeout',
      finishDetail: 'The provider did not begin to answer within 300 ms.',
    });
    expect(provider.requests).toHaveLength(2);
  });

  it('is not asked again once a part of its answer was shown', async () => {
    const provider = await play((response) =>
      response.writeHead(200).write('data: {"choices":[{"delta":{"content":"Hel"}}]}\n\n'),
    );
    const result = await run(chat(provider), { modelFirstByteMs: 10_000, modelIdleMs: 60 });
    expect(result).toMatchObject({ finishReason: 'timeout', text: 'Hel' });
    expect(provider.requests).toHaveLength(1);
  });
});
