import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ConfigurationError, type Message } from '@toolloop/core';
import type { ModelEvent } from '@toolloop/protocol';
import { getEventListeners } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { OpenAiModel, openai, type OpenAiModelOptions } from '../src/index.js';
import { chunk, sse } from './decode.js';
import { answers, LocalProvider, streams, type Answer } from '../../wire/test/local-provider.js';
import { eventsOf, failureOf } from '../../wire/test/read-model.js';
import { ask, toolSpec } from '../../wire/test/requests.js';

const HELLO = sse(chunk({ content: 'Hello' }), chunk({}, 'stop'), {
  choices: [],
  usage: { prompt_tokens: 3, completion_tokens: 1 },
});
const HELLO_EVENTS: readonly ModelEvent[] = [
  { type: 'text-delta', text: 'Hello' },
  { type: 'usage', usage: { inputTokens: 3, outputTokens: 1 } },
  { type: 'finish', finishReason: 'stop' },
];
const KEY = 'sk-own-secret';
const PROMPT = 'My bank account is DE89 3704 0044 0532 0130 00.';
const ARGUMENTS = '{"iban":"DE89370400440532013000"}';
const ECHOED = ask(PROMPT, {
  messages: [
    { role: 'user', content: PROMPT },
    {
      role: 'assistant',
      content: '',
      toolCalls: [{ toolCallId: 'a', name: 'pay', arguments: ARGUMENTS }],
    },
    { role: 'tool', toolCallId: 'a', toolName: 'pay', content: 'Paid.' },
  ],
});

let provider: LocalProvider | undefined;

async function model(
  answer: Answer | readonly Answer[],
  options: OpenAiModelOptions = {},
): Promise<OpenAiModel> {
  provider = await LocalProvider.start(...[answer].flat());
  return openai('own-1', { baseURL: provider.baseURL, apiKey: KEY, ...options });
}

afterEach(async () => {
  await provider?.[Symbol.asyncDispose]();
  provider = undefined;
});

/** What stands between the brackets of a list of the body. */
function partOf(body: string, name: string): string {
  return new RegExp(`"${name}":\\[(.*?)\\](,"stream"|\\}$)`).exec(body)?.[1] ?? '';
}

/** Sends one word, then nothing. */
const stalls: Answer = (response) =>
  response.writeHead(200).write(sse(chunk({ content: 'Hel' })).replace('data: [DONE]\n\n', ''));

/** Waits until a number stays the same. */
async function settled(value: () => number): Promise<void> {
  for (let before = -1; before !== value(); await sleep(100)) before = value();
}

describe('a request', () => {
  it('is a POST of JSON with the key, to the base URL', async () => {
    const subject = await model(streams(HELLO), {
      headers: { 'x-app': 'desk' },
      organization: 'org-1',
      project: 'proj-1',
    });
    expect(await eventsOf(subject, ask('Hi', { tools: [toolSpec('get_order')] }))).toEqual(
      HELLO_EVENTS,
    );
    const [request] = provider?.requests ?? [];
    expect(request).toMatchObject({
      method: 'POST',
      path: '/v1/chat/completions',
      headers: {
        authorization: `Bearer ${KEY}`,
        'content-type': 'application/json',
        'openai-organization': 'org-1',
        'openai-project': 'proj-1',
        'x-app': 'desk',
      },
    });
    expect(JSON.parse(request?.body ?? '')).toMatchObject({
      model: 'own-1',
      stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: 'user', content: 'Hi' }],
      tools: [{ type: 'function', function: { name: 'get_order' } }],
    });
  });

  it('repeats the bytes of all that went before, when messages and tools are added', async () => {
    const subject = await model(streams(HELLO));
    const [first, second] = [toolSpec('first', { id: { type: 'integer' } }), toolSpec('second')];
    const messages: readonly Message[] = [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: '',
        toolCalls: [{ toolCallId: 'a', name: 'first', arguments: '{"id": 1}' }],
      },
    ];
    await eventsOf(subject, { messages, tools: [first] });
    await eventsOf(subject, {
      messages: [...messages, { role: 'tool', toolCallId: 'a', toolName: 'first', content: '1' }],
      tools: [first, second],
    });
    const [one = '', two = ''] = provider?.requests.map(({ body }) => body) ?? [];
    expect(partOf(one, 'tools')).toContain('"name":"first"');
    expect(partOf(two, 'tools').startsWith(`${partOf(one, 'tools')},{`)).toBe(true);
    expect(partOf(one, 'messages')).toContain('{\\"id\\": 1}');
    expect(partOf(two, 'messages').startsWith(`${partOf(one, 'messages')},{"role":"tool"`)).toBe(
      true,
    );
  });

  it('has the same headers each time', async () => {
    const subject = await model(streams(HELLO), { headers: { 'x-app': 'desk' } });
    for (let step = 0; step < 3; step += 1) await eventsOf(subject);
    const [first, ...others] = provider?.requests.map(({ headers }) => headers) ?? [];
    expect(others).toEqual([first, first]);
  });

  it('goes through what the application has put in the place of the global fetch since the one before', async () => {
    const subject = await model(streams(HELLO));
    const kept = globalThis.fetch;
    let asked = 0;
    globalThis.fetch = (input, init) => {
      asked += 1;
      return kept(input, init);
    };
    try {
      expect(await eventsOf(subject)).toEqual(HELLO_EVENTS);
    } finally {
      globalThis.fetch = kept;
    }
    expect(await eventsOf(subject)).toEqual(HELLO_EVENTS);
    expect([asked, provider?.requests.length]).toEqual([1, 2]);
  });

  it('uses connections again from step to step', async () => {
    const subject = await model(streams(HELLO));
    for (let step = 0; step < 10; step += 1) await eventsOf(subject);
    expect(provider?.requests).toHaveLength(10);
    // Two, because the client may ask again before its pool has seen the end of the answer; plain
    // fetch uses two as well.
    expect(provider?.sockets.size).toBeLessThanOrEqual(2);
  });

  it('leaves nothing behind on the signal of a long run', async () => {
    const subject = await model(streams(HELLO));
    const { signal } = new AbortController();
    await eventsOf(subject, ask('Hi'), signal);
    const { length } = getEventListeners(signal, 'abort');
    for (let step = 0; step < 5; step += 1) await eventsOf(subject, ask('Hi'), signal);
    expect(getEventListeners(signal, 'abort')).toHaveLength(length);
  });

  it('can go through a fetch of the user', async () => {
    const urls: string[] = [];
    const subject = openai('own-1', {
      apiKey: KEY,
      fetch: async (url) => {
        urls.push(url instanceof Request ? url.url : url.toString());
        return Promise.resolve(new Response(HELLO));
      },
    });
    expect(await eventsOf(subject)).toEqual(HELLO_EVENTS);
    expect(urls).toEqual(['https://api.openai.com/v1/chat/completions']);
  });
});

describe('an answer', () => {
  it('costs a handful of events when 2,000 chunks come in one write', async () => {
    const words = Array.from({ length: 2000 }, () => chunk({ content: 'word ' }));
    const subject = await model(streams(sse(...words, chunk({}, 'stop'))));
    const events = await eventsOf(subject);
    expect(events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('')).toBe(
      'word '.repeat(2000),
    );
    expect(events.length).toBeLessThan(50);
  });

  it('may be plain JSON from a server that does not stream', async () => {
    const body = {
      choices: [{ message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 1 },
    };
    expect(await eventsOf(await model(answers(200, JSON.stringify(body))))).toEqual(HELLO_EVENTS);
  });

  it('is incomplete when it is cut without an error', async () => {
    const subject = await model(
      streams('data: {"choices":[{"delta":{"content":"Hel"}}]}\n\ndata: {"choi'),
    );
    expect(await eventsOf(subject)).toEqual([
      { type: 'text-delta', text: 'Hel' },
      { type: 'finish', finishReason: 'incomplete' },
    ]);
  });

  it('throws when it holds an error, behind the events that came before it', async () => {
    const subject = await model(
      streams(sse(chunk({ content: 'Hel' }), { error: { message: 'Busy.', code: 503 } })),
    );
    const seen: ModelEvent[] = [];
    const reading = (async () => {
      for await (const event of subject.stream(ask('Hi'), new AbortController().signal))
        seen.push(event);
    })();
    await expect(reading).rejects.toMatchObject({
      name: 'ModelError',
      status: 503,
      isRetryable: true,
    });
    expect(seen).toEqual([{ type: 'text-delta', text: 'Hel' }]);
  });

  it('ends at [DONE], though the server keeps the connection open', async () => {
    const subject = await model((response) => response.writeHead(200).write(HELLO));
    expect(await eventsOf(subject)).toEqual(HELLO_EVENTS);
    await provider?.untilClosed();
  });
});

describe('a failure', () => {
  it.each([
    [401, false],
    [404, false],
    [408, true],
    [409, true],
    [429, true],
    [500, true],
    [503, true],
  ])('a status %i makes it retryable: %s', async (status, retryable) => {
    const failure = await failureOf(
      await model(answers(status, '{"error":{"message":"It says why."}}')),
    );
    expect(failure.message).toBe(`The provider answered ${status}: It says why.`);
    expect([failure.status, failure.isRetryable]).toEqual([status, retryable]);
  });

  it.each([
    [429, 'false', false],
    [500, 'false', false],
    [400, 'true', true],
    [503, 'soon', true],
  ])('a status %i makes it retryable as the provider says: %s', async (status, says, retryable) => {
    const failure = await failureOf(await model(answers(status, '{}', { 'x-should-retry': says })));
    expect(failure.isRetryable).toBe(retryable);
  });

  it('says what the provider calls the request, its word for the failure and how long it wants to be left alone', async () => {
    const body = '{"error":{"message":"Slower.","type":"requests","code":"rate_limit_exceeded"}}';
    const failure = await failureOf(
      await model(answers(429, body, { 'x-request-id': 'req_1', 'retry-after': '7' })),
    );
    expect(failure.message).toBe(
      'The provider answered 429: rate_limit_exceeded: Slower. (request req_1)',
    );
    expect(failure).toMatchObject({
      status: 429,
      isRetryable: true,
      requestId: 'req_1',
      retryAfterMs: 7_000,
    });
  });

  it.each([
    [
      'an error',
      JSON.stringify({
        error: { message: `Wrong key ${KEY}: ${PROMPT} and ${ARGUMENTS}. ${'<p>'.repeat(1000)}` },
      }),
    ],
    ['a text in place of an error', JSON.stringify({ error: `Wrong key ${KEY}: ${PROMPT}` })],
    ['other JSON', JSON.stringify({ headers: { authorization: `Bearer ${KEY}` }, sent: PROMPT })],
    ['a page', `<html>You sent ${KEY}: ${PROMPT}</html>`],
  ])(
    'has neither key nor prompt in it when the provider echoes the request in %s',
    async (_what, body) => {
      const failure = await failureOf(await model(answers(401, body)), ECHOED);
      expect(failure.message).toMatch(
        /^The provider answered 401: (Wrong key \[api key\]: \[…\]|It does not say why\.$)/,
      );
      expect(failure.message.length).toBeLessThan(600);
      expect(inspect(failure, { depth: 9 })).not.toMatch(/sk-own-secret|bank account|DE89/);
    },
  );

  it('has neither key nor prompt in it when the provider echoes the request in the stream', async () => {
    const echo = { error: { message: `Wrong key ${KEY} for "${PROMPT.slice(3, 40)}"` } };
    const failure = await failureOf(
      await model(streams(`data: ${JSON.stringify(echo)}\n\n`)),
      ECHOED,
    );
    expect(failure.message).toBe('The provider reported an error: Wrong key [api key] for "[…]"');
  });

  it('is a redirect, which would carry the conversation elsewhere', async () => {
    const subject = await model(
      answers(307, '', { location: 'http://127.0.0.1:9/v1/chat/completions' }),
    );
    expect(await failureOf(subject)).toMatchObject({ name: 'ModelError' });
    expect(provider?.requests).toHaveLength(1);
  });

  it('is the failure of one request, since the loop decides about another', async () => {
    const subject = await model([
      answers(429, '{"error":{"message":"Busy."}}', { 'retry-after-ms': '1' }),
      streams(HELLO),
    ]);
    expect(await failureOf(subject)).toMatchObject({ isRetryable: true, retryAfterMs: 1 });
    expect(provider?.requests).toHaveLength(1);
  });

  it('is retryable when no connection is made', async () => {
    const subject = await model(streams(HELLO));
    await provider?.[Symbol.asyncDispose]();
    const failure = await failureOf(subject);
    expect(failure.message).toMatch(
      /^The provider could not be reached: connect ECONNREFUSED 127\.0\.0\.1:\d+$/,
    );
    expect(failure.isRetryable).toBe(true);
  });

  it('is retryable when the answer does not begin in time', async () => {
    const failure = await failureOf(await model(() => undefined, { timeoutMs: 30 }));
    expect(failure.message).toBe('The provider did not begin to answer within 30 ms.');
    expect(failure.isRetryable).toBe(true);
  });

  it('is retryable when the connection breaks in the middle of an answer', async () => {
    const subject = await model((response) => {
      response.writeHead(200);
      response.write(sse(chunk({ content: 'Hel' })).replace('data: [DONE]\n\n', ''), () =>
        setTimeout(() => response.destroy(), 20),
      );
    });
    const failure = await failureOf(subject);
    expect(failure.message).toBe(
      'The connection broke in the middle of an answer: other side closed',
    );
    expect(failure.isRetryable).toBe(true);
  });

  it('is a ModelError, too, when the request cannot be encoded', async () => {
    const subject = await model(streams(HELLO));
    const reading = eventsOf(subject, ask('Hi', { options: { provider: { metadata: 1n } } }));
    await expect(reading).rejects.toMatchObject({ name: 'ModelError', isRetryable: false });
    expect(provider?.requests).toEqual([]);
  });

  it('says where to look when the API is not found', async () => {
    const failure = await failureOf(
      await model(answers(200, '<html></html>', { 'content-type': 'text/html' })),
    );
    expect(failure.message).toContain('Does the baseURL end in the API');
  });
});

describe('stopping', () => {
  it('closes the socket at once and ends without an error when the signal aborts in the middle of an answer', async () => {
    const subject = await model(stalls);
    const controller = new AbortController();
    const seen: ModelEvent[] = [];
    for await (const event of subject.stream(ask('Hi'), controller.signal)) {
      seen.push(event);
      setTimeout(() => controller.abort(), 20); // the server never ends its answer
    }
    expect(seen).toEqual([{ type: 'text-delta', text: 'Hel' }]);
    await provider?.untilClosed();
  });

  it('closes the socket when the signal aborts before the answer begins', async () => {
    const subject = await model(() => undefined);
    const controller = new AbortController();
    const reading = eventsOf(subject, ask('Hi'), controller.signal);
    while (provider?.requests.length !== 1) await sleep(1);
    controller.abort();
    expect(await reading).toEqual([]);
    await provider?.untilClosed();
  });

  it('sends nothing when the signal was aborted before', async () => {
    const subject = await model(streams(HELLO));
    expect(await eventsOf(subject, ask('Hi'), AbortSignal.abort())).toEqual([]);
    expect(provider?.requests).toEqual([]);
  });

  it("ends the answer though the user's fetch ignores signals", async () => {
    const controller = new AbortController();
    const body = new ReadableStream({
      pull: async () => sleep(3_600_000, undefined, { ref: false }),
    });
    const subject = openai('own-1', {
      apiKey: KEY,
      fetch: async () => Promise.resolve(new Response(body)),
    });
    setTimeout(() => controller.abort(), 20);
    expect(await eventsOf(subject, ask('Hi'), controller.signal)).toEqual([]);
  });

  it('closes the socket when the iteration is left', async () => {
    const subject = await model(stalls);
    for await (const event of subject.stream(ask('Hi'), new AbortController().signal)) {
      expect(event).toEqual({ type: 'text-delta', text: 'Hel' });
      break;
    }
    await provider?.untilClosed();
  });

  it('hands out nothing more of what was read already', async () => {
    const subject = await model(streams(HELLO));
    const controller = new AbortController();
    const seen: ModelEvent[] = [];
    for await (const event of subject.stream(ask('Hi'), controller.signal)) {
      seen.push(event);
      controller.abort();
    }
    expect(seen).toEqual(HELLO_EVENTS.slice(0, 1));
  });
});

describe('a slow reader', () => {
  it('makes the provider wait', async () => {
    const text = sse(chunk({ content: 'x'.repeat(16_000) })).replace('data: [DONE]\n\n', '');
    let written = 0;
    let isPaused = false;
    const pour = (response: ServerResponse): void => {
      while (!response.destroyed) {
        written += text.length;
        isPaused = !response.write(text);
        if (isPaused) break;
      }
    };
    const subject = await model((response) => {
      response.writeHead(200);
      response.on('drain', () => pour(response));
      pour(response);
    });
    const reading = subject.stream(ask('Hi'), new AbortController().signal);
    await reading.next();
    await settled(() => written);
    const before = written;
    // What lies between the two ends is socket buffers; a reader that ran ahead would have taken
    // gigabytes by now.
    expect(before).toBeLessThan(32 * 1024 * 1024);
    expect(isPaused).toBe(true);
    let read = 0;
    while (read < 2 * before) {
      const { value } = await reading.next();
      read += value?.type === 'text-delta' ? value.text.length : 0;
    }
    expect(written).toBeGreaterThan(before);
    await reading.return();
  });
});

describe('construction', () => {
  const kept = { ...process.env };

  beforeEach(() => {
    delete process.env.OPENAI_API_KEY;
    delete process.env.OPENAI_BASE_URL;
  });

  afterEach(() => {
    process.env = { ...kept };
  });

  it('says what to do when key and base URL are missing', () => {
    expect(() => openai('gpt-5-mini')).toThrow(ConfigurationError);
    expect(() => openai('gpt-5-mini')).toThrow(
      /openai\('gpt-5-mini'\): there is no API key\.\n.*Set OPENAI_API_KEY .* OPENAI_BASE_URL/,
    );
  });

  it('takes key and base URL from the environment', async () => {
    provider = await LocalProvider.start(streams(HELLO));
    process.env.OPENAI_API_KEY = 'sk-from-env';
    process.env.OPENAI_BASE_URL = provider.baseURL;
    await eventsOf(openai('own-1'));
    expect(provider.requests[0]?.headers.authorization).toBe('Bearer sk-from-env');
  });

  it('needs no key for a server of one’s own', async () => {
    provider = await LocalProvider.start(streams(HELLO));
    expect(await eventsOf(openai('own-1', { baseURL: provider.baseURL }))).toEqual(HELLO_EVENTS);
    expect(provider.requests[0]?.headers.authorization).toBe('Bearer no-key');
  });

  it('names provider and model', () => {
    expect(openai('gpt-5-mini', { apiKey: KEY })).toMatchObject({
      provider: 'openai',
      modelId: 'gpt-5-mini',
    });
  });

  it('never shows the key when the model is printed', () => {
    const subject = openai('gpt-5-mini', { apiKey: KEY });
    expect(JSON.stringify(subject)).toBe(
      '{"capabilities":{},"modelId":"gpt-5-mini","provider":"openai"}',
    );
    expect(inspect(subject, { depth: 9, showHidden: true })).not.toContain(KEY);
  });
});
