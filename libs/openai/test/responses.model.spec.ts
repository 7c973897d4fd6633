import { afterEach, describe, expect, it } from '@jest/globals';
import { assemble, type AssistantMessage, type ModelAnswer } from '@toolloop/protocol';
import { setTimeout as sleep } from 'node:timers/promises';
import { openai, type OpenAiModel, type OpenAiModelOptions } from '../src/index.js';
import { answers, LocalProvider, streams, type Answer } from '../../wire/test/local-provider.js';
import { failureOf } from '../../wire/test/read-model.js';
import { ask, toolSpec } from '../../wire/test/requests.js';

const KEY = 'sk-own-secret';
const REASONING = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAAAB-own==' };
const CALL = {
  type: 'function_call',
  id: 'fc_1',
  call_id: 'call_a',
  name: 'get_order',
  arguments: '{"id":7}',
  status: 'completed',
};

function event(type: string, rest: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
}

/** An answer whose text streams, if there is any, and whose other items come in full. */
function response(output: readonly object[], text = ''): string {
  const delta =
    text === '' ? '' : event('response.output_text.delta', { output_index: 9, delta: text });
  const items = output
    .map((item, index) => event('response.output_item.done', { output_index: index, item }))
    .join('');
  return (
    delta +
    items +
    event('response.completed', {
      response: { status: 'completed', output: [], usage: { input_tokens: 3, output_tokens: 1 } },
    })
  );
}

let provider: LocalProvider | undefined;

async function model(
  answer: Answer | readonly Answer[],
  options: OpenAiModelOptions = {},
): Promise<OpenAiModel> {
  provider = await LocalProvider.start(...[answer].flat());
  return openai('own-1', {
    api: 'responses',
    baseURL: provider.baseURL,
    apiKey: KEY,
    ...options,
  });
}

function answerOf(
  subject: OpenAiModel,
  request = ask('Hi'),
  signal = new AbortController().signal,
): Promise<ModelAnswer> {
  return assemble(subject.stream(request, signal));
}

afterEach(async () => {
  await provider?.[Symbol.asyncDispose]();
  provider = undefined;
});

/** Sends half a word, then nothing. */
const stalls: Answer = (reply) =>
  reply
    .writeHead(200)
    .write(event('response.output_text.delta', { output_index: 0, delta: 'Hel' }));

describe('a model over the responses API', () => {
  it('posts to it with the key and asks that nothing is stored', async () => {
    const subject = await model(streams(response([], 'Hello')));
    expect(await answerOf(subject)).toEqual({
      text: 'Hello',
      reasoning: '',
      toolCalls: [],
      finishReason: 'stop',
      usage: { inputTokens: 3, outputTokens: 1 },
    });
    const [request] = provider?.requests ?? [];
    expect(request).toMatchObject({
      method: 'POST',
      path: '/v1/responses',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    });
    expect(JSON.parse(request?.body ?? '')).toMatchObject({
      model: 'own-1',
      stream: true,
      store: false,
      include: ['reasoning.encrypted_content'],
    });
  });

  it('sends encrypted reasoning back with the result it led to, verbatim', async () => {
    const subject = await model([
      streams(response([REASONING, CALL])),
      streams(response([], 'Done.')),
    ]);
    const tools = [toolSpec('get_order')];
    const {
      text: content,
      toolCalls,
      providerData,
    } = await answerOf(subject, ask('Where is order 7?', { tools }));
    const assistant: AssistantMessage = { role: 'assistant', content, toolCalls, providerData };
    const messages = [
      { role: 'user', content: 'Where?' },
      assistant,
      { role: 'tool', toolCallId: 'call_a', toolName: 'get_order', content: '42' },
    ] as const;
    expect((await answerOf(subject, { messages, tools })).text).toBe('Done.');
    const { input } = JSON.parse(provider?.requests[1]?.body ?? '') as { input: unknown[] };
    expect(input.slice(1)).toEqual([
      REASONING,
      CALL,
      { type: 'function_call_output', call_id: 'call_a', output: '42' },
    ]);
  });

  it('keeps two conversations apart that it answers at the same time', async () => {
    const subject = await model((reply, { body }) => {
      const [name] = /acme|globex/.exec(body) ?? [''];
      setTimeout(
        () =>
          streams(
            response(
              [
                { ...REASONING, encrypted_content: name },
                { ...CALL, arguments: JSON.stringify({ name }) },
              ],
              name,
            ),
          )(reply, { method: '', path: '', headers: {}, body }),
        name === 'acme' ? 20 : 0,
      );
    });
    const both = await Promise.all(['acme', 'globex'].map((name) => answerOf(subject, ask(name))));
    expect(both.map(({ text, toolCalls }) => [text, toolCalls[0]?.arguments])).toEqual([
      ['acme', '{"name":"acme"}'],
      ['globex', '{"name":"globex"}'],
    ]);
    expect(both.map(({ providerData }) => JSON.stringify(providerData).includes('globex'))).toEqual(
      [false, true],
    );
  });
});

describe('a failure', () => {
  it.each([
    [401, false],
    [429, true],
    [500, true],
  ])('a status %i makes it retryable: %s', async (status, retryable) => {
    const failure = await failureOf(
      await model(answers(status, '{"error":{"message":"It says why."}}')),
    );
    expect(failure.message).toBe(`The provider answered ${status}: It says why.`);
    expect([failure.status, failure.isRetryable]).toEqual([status, retryable]);
  });

  it('never repeats the key when the provider reports it', async () => {
    const failed = event('response.failed', {
      response: {
        status: 'failed',
        error: { code: 'server_error', message: `Wrong key ${KEY}.` },
      },
    });
    const failure = await failureOf(await model(streams(failed)));
    expect(failure.message).toBe(
      'The provider reported an error: server_error: Wrong key [api key].',
    );
    expect(failure.isRetryable).toBe(true);
  });

  it('is a chat completion where a response was expected', async () => {
    const failure = await failureOf(await model(answers(200, '{"choices":[]}')));
    expect(failure.message).toMatch(
      /^The server answered with other JSON instead of a response\. Does the baseURL/,
    );
  });

  it('is a redirect, which would carry the conversation elsewhere', async () => {
    const failure = await failureOf(
      await model(answers(307, '', { location: 'http://127.0.0.1:9/v1/responses' })),
    );
    expect([failure.status, failure.isRetryable, provider?.requests.length]).toEqual([
      307,
      false,
      1,
    ]);
  });
});

describe('stopping', () => {
  it('closes the socket when the signal aborts in the middle of an answer', async () => {
    const subject = await model(stalls);
    const controller = new AbortController();
    for await (const { type } of subject.stream(ask('Hi'), controller.signal)) {
      expect(type).toBe('text-delta');
      setTimeout(() => controller.abort(), 20); // the server never ends its answer
    }
    await provider?.untilClosed();
  });

  it('closes the socket when the iteration is left', async () => {
    for await (const { type } of (await model(stalls)).stream(
      ask('Hi'),
      new AbortController().signal,
    )) {
      expect(type).toBe('text-delta');
      break;
    }
    await provider?.untilClosed();
  });

  it('keeps the connection for the next request when the answer has ended', async () => {
    const subject = await model(streams(response([], 'Hello')));
    for (let step = 0; step < 5; step += 1) {
      await answerOf(subject);
      await sleep(0);
    }
    expect([provider?.requests.length, provider?.sockets.size]).toEqual([5, 1]);
  });
});
