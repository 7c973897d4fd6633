import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { anthropic } from '@toolloop/anthropic';
import type { LanguageModel } from '@toolloop/core';
import { retried } from '@toolloop/core/models';
import { openai } from '@toolloop/openai';
import type { ModelEvent } from '@toolloop/protocol';
import { httpFetch, type Fetch } from '@toolloop/wire';
import {
  answers,
  type Answer,
  LocalProvider,
  streams,
} from '../../libs/wire/test/local-provider.js';
import { eventsOf, failureOf } from '../../libs/wire/test/read-model.js';
import { ask } from '../../libs/wire/test/requests.js';

/** The options that all wires have. */
interface Options {
  readonly baseURL: string;
  readonly fetch?: Fetch;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
}

interface WireRow {
  readonly create: (options: Options) => LanguageModel;
  /** The beginning of an answer, with a word. */
  readonly word: string;
  /** The rest of it. */
  readonly end: string;
}

function events(...chunks: readonly object[]): string {
  return chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('');
}

const KEY = 'sk-of-the-model';
const SECRET = 'A secret that no log repeats.';
const RESPONSE = { id: 'resp_1', status: 'completed', output: [] };

const WIRES: Readonly<Record<string, WireRow>> = {
  'chat completions': {
    create: (options) => openai('own-1', { apiKey: KEY, ...options }),
    word: events({ choices: [{ index: 0, delta: { role: 'assistant', content: 'Hi' } }] }),
    end: events({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
  },
  responses: {
    create: (options) => openai('own-1', { apiKey: KEY, api: 'responses', ...options }),
    word: events({
      type: 'response.output_text.delta',
      item_id: 'msg_1',
      output_index: 0,
      content_index: 0,
      delta: 'Hi',
    }),
    end: events({ type: 'response.completed', response: RESPONSE }),
  },
  messages: {
    create: (options) => anthropic('own-1', { apiKey: KEY, ...options }),
    word: events(
      {
        type: 'message_start',
        message: {
          id: 'msg_1',
          role: 'assistant',
          content: [],
          usage: { input_tokens: 1, output_tokens: 1 },
        },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
    ),
    end: events(
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
      { type: 'message_stop' },
    ),
  },
};

/** The ways in which requests are sent: the wire's own, and those of a user. */
const FETCHES: readonly (readonly [string, Fetch | undefined])[] = [
  ['without a fetch of the user', undefined],
  ['with the global fetch', (input, init) => globalThis.fetch(input, init)],
  ['with httpFetch', httpFetch()],
];

const ABORT_MS = 50;

let provider: LocalProvider | undefined;

async function serve(...script: readonly Answer[]): Promise<string> {
  provider = await LocalProvider.start(...script);
  return provider.origin;
}

afterEach(async () => {
  await provider?.[Symbol.asyncDispose]();
  provider = undefined;
});

/** Aborts a request, and returns the milliseconds until the provider sees its socket close. */
async function closingMs(subject: LanguageModel, isRead: boolean): Promise<number> {
  const controller = new AbortController();
  const sent = provider?.requests.length ?? 0;
  const words: ModelEvent[] = [];
  const isUnderWay = (): boolean =>
    provider?.requests.length === sent + 1 && words.length > 0 === isRead;
  const reading = (async () => {
    for await (const event of subject.stream(ask('Hi'), controller.signal)) words.push(event);
  })();
  while (!isUnderWay()) await sleep(1);
  const open = [...(provider?.sockets ?? [])].filter((socket) => !socket.closed);
  const closed = Promise.race(
    open.map((socket) => once(socket, 'close').then(() => performance.now())),
  );
  const before = performance.now();
  controller.abort();
  const ms = (await closed) - before;
  await reading;
  return ms;
}

describe.each(Object.entries(WIRES))('%s', (_name, { create, word, end }) => {
  const hello = streams(word, end);

  describe.each(FETCHES)('%s', (_which, fetch) => {
    const given = fetch && { fetch };

    it('sends a request that is answered with 429 once per attempt', async () => {
      const limited = answers(429, '{"error":{"message":"Slow down."}}', { 'retry-after-ms': '1' });
      const baseURL = await serve(limited);
      expect((await failureOf(create({ baseURL, ...given }))).status).toBe(429);
      expect(provider?.requests).toHaveLength(1);
      const failure = await failureOf(
        retried(create({ baseURL, ...given }), { attempts: 3, firstWaitMs: 1 }),
      );
      expect([failure.status, provider?.requests.length]).toEqual([429, 4]);
    });

    it.each([
      ['before the answer begins', () => undefined, false],
      ['in the middle of the answer', (response) => void response.writeHead(200).write(word), true],
    ] satisfies readonly (readonly [string, Answer, boolean])[])(
      'closes the socket within 50 ms of an abort %s',
      async (_when, answer, isRead) => {
        const baseURL = await serve(hello, answer);
        const subject = create({ baseURL, ...given });
        await eventsOf(subject);
        const times: number[] = [];
        // A busy machine may be late once.
        for (let abort = 0; abort < 3; abort += 1) times.push(await closingMs(subject, isRead));
        expect(Math.min(...times)).toBeLessThan(ABORT_MS);
      },
    );

    it('sends the headers and the parameters of the model with every request', async () => {
      const baseURL = await serve(hello);
      const subject = create({
        baseURL,
        headers: { 'x-app': 'desk' },
        query: { 'api-version': '2026-11-01' },
        ...given,
      });
      for (let request = 0; request < 3; request += 1) await eventsOf(subject);
      const sent = provider?.requests.map(({ headers, path }) => [
        headers['x-app'],
        new URL(path, baseURL).search,
      ]);
      expect(sent).toEqual(Array.from({ length: 3 }, () => ['desk', '?api-version=2026-11-01']));
    });

    it('follows no redirect', async () => {
      const elsewhere = await LocalProvider.start(hello);
      try {
        const subject = create({
          baseURL: await serve(hello, answers(307, '', { location: elsewhere.baseURL })),
          ...given,
        });
        await eventsOf(subject);
        await failureOf(subject);
        expect([provider?.requests.length, elsewhere.requests.length]).toEqual([2, 0]);
      } finally {
        await elsewhere[Symbol.asyncDispose]();
      }
    });
  });

  it("sends every request by the user's fetch, the second and the hundredth", async () => {
    const baseURL = await serve(hello);
    const bodies: unknown[] = [];
    const lean = httpFetch();
    const subject = create({
      baseURL,
      fetch: (input, init) => {
        bodies.push(init?.body);
        return lean(input, init);
      },
    });
    for (let request = 0; request < 100; request += 1)
      await eventsOf(subject, ask(`Request ${request}`));
    expect([bodies.length, provider?.requests.length]).toEqual([100, 100]);
    expect(
      bodies.every(
        (body, request) => typeof body === 'string' && body.includes(`Request ${request}`),
      ),
    ).toBe(true);
  });

  describe('with an environment of its own', () => {
    const kept = { ...process.env };

    beforeEach(() => {
      process.env.OPENAI_ADMIN_KEY = 'sk-of-the-admin';
      process.env.OPENAI_LOG = 'debug';
      process.env.ANTHROPIC_LOG = 'debug';
    });

    afterEach(() => {
      process.env = { ...kept };
      jest.restoreAllMocks();
    });

    it('never sends the key of an administrator', async () => {
      const subject = create({ baseURL: await serve(hello) });
      for (let request = 0; request < 2; request += 1) await eventsOf(subject);
      expect(JSON.stringify(provider?.requests)).not.toContain('sk-of-the-admin');
      expect(provider?.requests.map(({ headers }) => headers.authorization)).toEqual([
        `Bearer ${KEY}`,
        `Bearer ${KEY}`,
      ]);
    });

    it('logs no body', async () => {
      const logged: unknown[] = [];
      for (const level of ['debug', 'info', 'log', 'warn', 'error'] as const)
        jest.spyOn(console, level).mockImplementation((...parts) => void logged.push(parts));
      const subject = create({
        baseURL: await serve(hello, answers(500, `{"error":{"message":"${SECRET}"}}`)),
      });
      await eventsOf(subject, ask(SECRET));
      await failureOf(subject, ask(SECRET));
      expect([logged, provider?.requests.length]).toEqual([[], 2]);
    });
  });
});
