import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ConfigurationError } from '@toolloop/core';
import type { ModelEvent } from '@toolloop/protocol';
import { Readable } from 'node:stream';
import { getEventListeners } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { anthropic, decodeMessages } from '../src/index.js';
import { answer, block, call, sse, START, text, USED } from './decode.js';
import { answers, LocalProvider, streams, type Answer } from '../../wire/test/local-provider.js';
import {
  eventsOf,
  failureOf,
  KEY,
  model,
  provider,
  settled,
  stopProvider,
} from './played-model.js';
import { ask, toolSpec } from './requests.js';

const HELLO = answer(text(0, 'Hello'));
const HELLO_EVENTS: readonly ModelEvent[] = [
  { type: 'text-delta', text: 'Hello' },
  USED as ModelEvent,
  { type: 'finish', finishReason: 'stop', response: { id: 'msg_1' } },
];
/** The beginning of an answer, and nothing more. */
const HEL = sse(START, ...text(0, 'Hel').slice(0, 2));

afterEach(stopProvider);

/** What an answer has used that failed after its beginning. */
const USED_BY_THEN: ModelEvent = { type: 'usage', usage: { inputTokens: 3, outputTokens: 1 } };

/** Sends one word, then nothing. */
const stalls: Answer = (response) => response.writeHead(200).write(HEL);

describe('a request', () => {
  it('is a POST of JSON with the key, to the base URL', async () => {
    const subject = await model(streams(HELLO), { headers: { 'anthropic-beta': 'own-1' } });
    expect(await eventsOf(subject, ask('Hi', { tools: [toolSpec('get_order')] }))).toEqual(
      HELLO_EVENTS,
    );
    const [request] = provider().requests;
    expect(request).toMatchObject({
      method: 'POST',
      path: '/v1/messages',
      headers: {
        authorization: `Bearer ${KEY}`,
        'content-type': 'application/json',
        'anthropic-version': '2026-10-21',
        'anthropic-beta': 'own-1',
      },
    });
    expect(JSON.parse(request?.body ?? '')).toMatchObject({
      model: 'own-1',
      max_tokens: 16_000,
      stream: true,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
      tools: [{ name: 'get_order' }],
    });
  });

  it('names the older version where asked to', async () => {
    await eventsOf(await model(streams(HELLO), { apiVersion: '2023-06-01' }));
    expect(provider().requests[0]?.headers['anthropic-version']).toBe('2023-06-01');
  });

  it('uses connections again from step to step', async () => {
    const subject = await model(streams(HELLO));
    for (let step = 0; step < 10; step += 1) await eventsOf(subject);
    expect(provider().requests).toHaveLength(10);
    // Two, because the client may ask again before its pool has seen the end of the answer; plain
    // fetch uses two as well.
    expect(provider().sockets.size).toBeLessThanOrEqual(2);
  });

  it('can go through a fetch of the user', async () => {
    const urls: string[] = [];
    const subject = anthropic('own-1', {
      apiKey: KEY,
      fetch: async (url) => {
        urls.push(url instanceof Request ? url.url : url.toString());
        return Promise.resolve(new Response(HELLO));
      },
    });
    expect(await eventsOf(subject)).toEqual(HELLO_EVENTS);
    expect(urls).toEqual(['https://api.anthropic.com/v1/messages']);
  });
});

describe('an answer', () => {
  it('costs a handful of events when 2,000 deltas come in one write', async () => {
    const subject = await model(
      streams(answer(text(0, ...Array.from({ length: 2000 }, () => 'word ')))),
    );
    const events = await eventsOf(subject);
    expect(events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('')).toBe(
      'word '.repeat(2000),
    );
    expect(events.length).toBeLessThan(50);
  });

  it('is incomplete when it is cut without an error', async () => {
    const subject = await model(streams(`${HEL}data: {"type":"cont`));
    expect((await eventsOf(subject)).at(-1)).toEqual({
      type: 'finish',
      finishReason: 'incomplete',
      response: { id: 'msg_1' },
    });
  });

  it('throws when it holds an error, behind the events that came before it', async () => {
    const subject = await model(
      streams(HEL + sse({ type: 'error', error: { type: 'overloaded_error', message: 'Busy.' } })),
    );
    const seen: ModelEvent[] = [];
    const reading = (async () => {
      for await (const event of subject.stream(ask('Hi'), new AbortController().signal))
        seen.push(event);
    })();
    await expect(reading).rejects.toMatchObject({
      name: 'ModelError',
      status: 529,
      isRetryable: true,
    });
    expect(seen).toEqual([{ type: 'text-delta', text: 'Hel' }, USED_BY_THEN]);
  });

  it('ends at message_stop, though the server keeps the connection open', async () => {
    const subject = await model((response) => response.writeHead(200).write(HELLO));
    expect(await eventsOf(subject)).toEqual(HELLO_EVENTS);
    await provider().untilClosed();
  });

  it('can be decoded where the application requested it, as a stream or as any bytes', async () => {
    for (const body of [
      new Response(HELLO).body ?? new ReadableStream(),
      Readable.from([Buffer.from(HELLO)]),
    ]) {
      const events: ModelEvent[] = [];
      for await (const event of decodeMessages(body)) events.push(event);
      const { usage } = USED as Extract<ModelEvent, { type: 'usage' }>;
      const whole = {
        text: 'Hello',
        reasoning: '',
        toolCalls: [],
        usage,
        providerReason: 'end_turn',
      };
      expect(events).toEqual([...HELLO_EVENTS.slice(0, -1), { ...HELLO_EVENTS.at(-1), ...whole }]);
    }
  });

  it('can be decoded by the application up to where its connection breaks', async () => {
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.error(new TypeError('terminated')),
    });
    await expect(decodeMessages(body).next()).rejects.toMatchObject({
      name: 'ModelError',
      isRetryable: true,
    });
  });

  it('can be decoded by the application up to its error', async () => {
    const body = new Response(
      HEL + sse({ type: 'error', error: { type: 'api_error', message: 'No.' } }),
    ).body;
    const decoded = decodeMessages(body as ReadableStream<Uint8Array>);
    expect(await decoded.next()).toEqual({
      done: false,
      value: { type: 'text-delta', text: 'Hel' },
    });
    expect(await decoded.next()).toEqual({ done: false, value: USED_BY_THEN });
    await expect(decoded.next()).rejects.toMatchObject({ name: 'ModelError' });
  });
});

describe('a turn that the provider pauses', () => {
  const search = {
    type: 'server_tool_use',
    id: 'srvtoolu_1',
    name: 'web_search',
    input: { query: 'tea' },
  };
  const found = { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] };
  const pause = streams(answer([...text(0, 'I look.'), ...block(1, search)], 'pause_turn'));

  it('continues with what it said so far, as one answer', async () => {
    const subject = await model([pause, streams(answer([...block(0, found), ...text(1, 'Tea.')]))]);
    const blocks = [{ type: 'text', length: 7 }, search, found, { type: 'text', length: 4 }];
    expect(await eventsOf(subject)).toEqual([
      { type: 'text-delta', text: 'I look.' },
      { type: 'provider-tool', id: 'srvtoolu_1', name: 'web_search', status: 'started' },
      { type: 'provider-tool', id: 'srvtoolu_1', name: 'web_search', status: 'succeeded' },
      { type: 'text-delta', text: 'Tea.' },
      { type: 'usage', usage: expect.objectContaining({ inputTokens: 6, outputTokens: 8 }) },
      {
        type: 'finish',
        finishReason: 'stop',
        response: { id: 'msg_1' },
        providerData: {
          anthropic: { model: 'own-1', server: new URL(provider().origin).host, blocks },
        },
      },
    ]);
    const { messages } = JSON.parse(provider().requests[1]?.body ?? '') as { messages: object[] };
    expect(messages).toEqual([
      expect.objectContaining({ role: 'user' }),
      { role: 'assistant', content: [{ type: 'text', text: 'I look.' }, search] },
    ]);
  });

  it('is not continued without end', async () => {
    const events = await eventsOf(await model(pause));
    expect(events.at(-1)).toMatchObject({ type: 'finish', finishReason: 'incomplete' });
    expect(provider().requests).toHaveLength(9);
  });

  it('is not continued behind more text than can be kept', async () => {
    const long = streams(
      answer([...text(0, 'x'.repeat(1024 * 1024), 'y'), ...block(1, search)], 'pause_turn'),
    );
    const events = await eventsOf(await model(long));
    expect(events.at(-1)).toMatchObject({ type: 'finish', finishReason: 'incomplete' });
    expect(provider().requests).toHaveLength(1);
  });

  it('waits where a tool of ours is to be run first', async () => {
    const events = await eventsOf(
      await model(
        streams(answer([...block(0, search), ...call(1, 'toolu_a', 'look')], 'pause_turn')),
      ),
    );
    expect(events.at(-1)).toMatchObject({ type: 'finish', finishReason: 'tool_calls' });
    expect(provider().requests).toHaveLength(1);
  });

  it('is not continued once the signal was aborted', async () => {
    const controller = new AbortController();
    const subject = await model(pause);
    for await (const event of subject.stream(ask('Hi'), controller.signal)) {
      expect(event).toEqual({ type: 'text-delta', text: 'I look.' });
      controller.abort();
    }
    expect(provider().requests).toHaveLength(1);
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
    await provider().untilClosed();
  });

  it.each<[string, Answer]>([['before anything was answered', () => undefined]])(
    'ends when the signal aborts %s',
    async (_when, play) => {
      const subject = await model(play);
      const controller = new AbortController();
      const reading = eventsOf(subject, ask('Hi'), controller.signal);
      while (provider().requests.length !== 1) await sleep(1);
      await sleep(20);
      controller.abort();
      expect(await reading).toEqual([]);
      expect(provider().requests).toHaveLength(1);
    },
  );

  it('sends nothing when the signal was aborted before', async () => {
    const subject = await model(streams(HELLO));
    expect(await eventsOf(subject, ask('Hi'), AbortSignal.abort())).toEqual([]);
    expect(provider().requests).toEqual([]);
  });

  it('closes the socket when the iteration is left', async () => {
    const subject = await model(stalls);
    for await (const event of subject.stream(ask('Hi'), new AbortController().signal)) {
      expect(event).toEqual({ type: 'text-delta', text: 'Hel' });
      break;
    }
    await provider().untilClosed();
  });

  it('leaves little behind on the signal of a long run', async () => {
    const subject = await model(streams(HELLO));
    const { signal } = new AbortController();
    await eventsOf(subject, ask('Hi'), signal);
    const { length } = getEventListeners(signal, 'abort');
    for (let step = 0; step < 5; step += 1) await eventsOf(subject, ask('Hi'), signal);
    expect(getEventListeners(signal, 'abort')).toHaveLength(length);
  });
});

describe('a slow reader', () => {
  it('makes the provider wait', async () => {
    const piece = sse(...text(0, 'x'.repeat(16_000)).slice(1, 2));
    let written = 0;
    let isPaused = false;
    const pour = (response: ServerResponse): void => {
      while (!response.destroyed) {
        written += piece.length;
        isPaused = !response.write(piece);
        if (isPaused) break;
      }
    };
    const subject = await model((response) => {
      response.writeHead(200);
      response.write(HEL);
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
    for (const name of ['ANTHROPIC_API_KEY', 'ANTHROPIC_AUTH_TOKEN', 'ANTHROPIC_BASE_URL'])
      delete process.env[name];
  });

  afterEach(() => {
    process.env = { ...kept };
  });

  it('says what to do when key and base URL are missing', () => {
    expect(() => anthropic('claude-own')).toThrow(ConfigurationError);
    expect(() => anthropic('claude-own')).toThrow(
      /anthropic\('claude-own'\): there is no API key\.\n.*Set ANTHROPIC_API_KEY .* ANTHROPIC_BASE_URL/,
    );
  });

  it.each(['ANTHROPIC_API_KEY', 'ANTHROPIC_AUTH_TOKEN'])(
    'takes the key from %s, and the base URL from the environment',
    async (name) => {
      await model(streams(HELLO));
      process.env[name] = 'sk-from-env';
      process.env.ANTHROPIC_BASE_URL = provider().origin;
      await eventsOf(anthropic('own-1'));
      expect(provider().requests[0]?.headers.authorization).toBe('Bearer sk-from-env');
    },
  );

  it('needs no key for a server of one’s own', async () => {
    await using own = await LocalProvider.start(streams(HELLO));
    expect(await eventsOf(anthropic('own-1', { baseURL: own.origin }))).toEqual(HELLO_EVENTS);
    expect(own.requests[0]?.headers.authorization).toBe('Bearer no-key');
  });

  it('never shows the key when the model is printed', () => {
    const subject = anthropic('claude-own', { apiKey: KEY });
    expect(JSON.stringify(subject)).toBe(
      '{"capabilities":{},"modelId":"claude-own","provider":"anthropic"}',
    );
    expect(inspect(subject, { depth: 9, showHidden: true })).not.toContain(KEY);
  });
});

describe('a failure to begin', () => {
  it('is retryable when no connection is made', async () => {
    const subject = await model(streams(HELLO));
    await stopProvider();
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

  it('is the failure of one request, since the loop decides about another', async () => {
    const busy = answers(
      529,
      '{"type":"error","error":{"type":"overloaded_error","message":"Busy."}}',
      { 'retry-after-ms': '1' },
    );
    const subject = await model([busy, streams(HELLO)]);
    expect(await failureOf(subject)).toMatchObject({ isRetryable: true, retryAfterMs: 1 });
    expect(provider().requests).toHaveLength(1);
  });

  it('is a ModelError, too, when the request cannot be encoded', async () => {
    const subject = await model(streams(HELLO));
    const reading = eventsOf(subject, ask('Hi', { options: { provider: { metadata: 1n } } }));
    await expect(reading).rejects.toMatchObject({ name: 'ModelError', isRetryable: false });
    expect(provider().requests).toEqual([]);
  });
});
