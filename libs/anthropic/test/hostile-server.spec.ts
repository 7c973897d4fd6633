import { afterEach, describe, expect, it } from '@jest/globals';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { answer, block, sse, START, text } from './decode.js';
import { answers, LocalProvider, streams } from '../../wire/test/local-provider.js';
import { eventsOf, failureOf, KEY, model, provider, stopProvider } from './played-model.js';
import { ask } from './requests.js';

afterEach(stopProvider);

/** Writes the same again and again, as fast as it is read, and counts the bytes. */
function pour(response: ServerResponse, piece: string, count: (bytes: number) => void): void {
  while (!response.destroyed) {
    count(piece.length);
    if (!response.write(piece)) {
      response.once('drain', () => pour(response, piece, count));
      return;
    }
  }
}

function errorBody(type: string, message: string): string {
  return JSON.stringify({ type: 'error', error: { type, message }, request_id: 'req_1' });
}

describe('a server that refuses', () => {
  it.each([
    [401, 'authentication_error', false],
    [404, 'not_found_error', false],
    [413, 'request_too_large', false],
    [429, 'rate_limit_error', true],
    [500, 'api_error', true],
    [529, 'overloaded_error', true],
  ])(
    'answers %i: the error has status, kind and request, and says whether it is retryable',
    async (status, type, retryable) => {
      const failure = await failureOf(
        await model(answers(status, errorBody(type, 'It says why.'), { 'request-id': 'req_1' })),
      );
      expect(failure.message).toBe(
        `The provider answered ${status}: ${type}: It says why. (request req_1)`,
      );
      expect([failure.status, failure.isRetryable]).toEqual([status, retryable]);
    },
  );

  it.each([
    [
      'an error',
      errorBody('authentication_error', `Wrong key ${KEY}. ${'<p>'.repeat(1000)}`),
      /Wrong key \[api key\]\./,
    ],
    [
      'a page',
      `<html>You sent ${KEY} and: My secret prompt.</html>`,
      /^The provider answered 401: It does not say why\.$/,
    ],
    [
      'other JSON',
      `{"echo":"My secret prompt.","authorization":"Bearer ${KEY}"}`,
      /^The provider answered 401: It does not say why\.$/,
    ],
  ])(
    'has neither key nor prompt in the error when it echoes the request in %s',
    async (_what, body, message) => {
      const failure = await failureOf(await model(answers(401, body)), ask('My secret prompt.'));
      expect(failure.message).toMatch(message);
      expect(failure.message.length).toBeLessThan(700);
      expect(
        JSON.stringify([failure.message, failure.stack, failure.requestId, failure.cause]),
      ).not.toMatch(/sk-own-secret|secret prompt/);
    },
  );

  it('has no key in the error when it fails in the middle of a stream either', async () => {
    const failure = await failureOf(
      await model(
        streams(sse({ type: 'error', error: { type: 'api_error', message: `Key ${KEY}.` } })),
      ),
    );
    expect(failure.message).toBe('The provider reported an error: api_error: Key [api key].');
  });

  it('is not read without end when its body has none', async () => {
    let written = 0;
    const subject = await model((response) => {
      response.writeHead(500);
      pour(response, 'x'.repeat(16_000), (bytes) => {
        written += bytes;
      });
    });
    expect((await failureOf(subject)).status).toBe(500);
    await provider().untilClosed();
    expect(written).toBeLessThan(32 * 1024 * 1024);
  });
});

describe('a server that sends elsewhere', () => {
  it.each([301, 302, 307, 308])(
    'answers %i: it is not followed, and the conversation and the key stay',
    async (status) => {
      await using elsewhere = await LocalProvider.start(streams(answer(text(0, 'Hi'))));
      const subject = await model(
        answers(status, '', { location: `${elsewhere.origin}/v1/messages` }),
      );
      expect(await failureOf(subject)).toMatchObject({ name: 'ModelError' });
      expect(elsewhere.requests).toEqual([]);
    },
  );
});

describe('a server that sends what is no answer', () => {
  it.each(['text/html', 'application/json', 'image/png', ''])(
    'is judged by its bytes under the content type %p',
    async (type) => {
      const events = await eventsOf(
        await model((response) =>
          response.writeHead(200, { 'content-type': type }).end(answer(text(0, 'Hi'))),
        ),
      );
      expect(events[0]).toEqual({ type: 'text-delta', text: 'Hi' });
    },
  );

  it('such as a page says where to look', async () => {
    const failure = await failureOf(
      await model(answers(200, '<html></html>', { 'content-type': 'text/event-stream' })),
    );
    expect(failure.message).toContain('Does the baseURL end before /v1');
  });

  it.each([
    ['a line', 'x'.repeat(64_000), 'data: '],
    ['an event of many lines', `data: ${'x'.repeat(64_000)}\n`, ''],
    ['JSON', ' '.repeat(64_000), '{"type":"message","content":['],
  ])('such as %s without end fails, and is not read on', async (_what, piece, start) => {
    let written = 0;
    const subject = await model((response) => {
      response.writeHead(200).write(start);
      pour(response, piece, (bytes) => {
        written += bytes;
      });
    });
    expect((await failureOf(subject)).message).toContain('more than 16777216 characters');
    await provider().untilClosed();
    expect(written).toBeLessThan(64 * 1024 * 1024);
  });

  it('such as comments and pings without end says nothing, keeps nothing and stops when it is told to', async () => {
    const pings = `: ping\n\nevent: ping\ndata: {"type":"ping"}\n\n`.repeat(200);
    const subject = await model((response) => {
      response.writeHead(200).write(sse(START));
      pour(response, pings, () => undefined);
    });
    const controller = new AbortController();
    const reading = eventsOf(subject, ask('Hi'), controller.signal);
    await sleep(200);
    controller.abort();
    expect(await reading).toEqual([]);
    await provider().untilClosed();
  });

  it('such as 20,000 calls of the same id takes no time that grows with their square', async () => {
    const calls = Array.from({ length: 20_000 }, (_, index) =>
      block(index, { type: 'tool_use', id: 'toolu_a', name: 'look' }),
    ).flat();
    const before = process.cpuUsage(); // others on the machine do not lengthen it
    const events = await eventsOf(await model(streams(answer(calls, 'tool_use'))));
    expect(events.filter(({ type }) => type === 'tool-call')).toHaveLength(20_000);
    expect(process.cpuUsage(before).user / 1_000_000).toBeLessThan(3);
  });

  it('such as a connection that breaks is retryable', async () => {
    const subject = await model((response) => {
      response
        .writeHead(200)
        .write(sse(START, ...text(0, 'Hel').slice(0, 2)), () =>
          setTimeout(() => response.destroy(), 20),
        );
    });
    const failure = await failureOf(subject);
    expect(failure.message).toBe(
      'The connection broke in the middle of an answer: other side closed',
    );
    expect(failure.isRetryable).toBe(true);
  });
});
