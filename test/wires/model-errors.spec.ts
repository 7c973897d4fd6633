import { afterEach, describe, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import { anthropic } from '@toolloop/anthropic';
import {
  type LanguageModel,
  type LoopEvent,
  type LoopRequest,
  ModelError,
  RunError,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { retried } from '@toolloop/core/models';
import { openai } from '@toolloop/openai';
import { lastValueFrom, toArray } from 'rxjs';
import {
  type Answer,
  answers,
  LocalProvider,
  streams,
} from '../../libs/wire/test/local-provider.js';
import { failureOf } from '../../libs/wire/test/read-model.js';

type ToModel = (provider: LocalProvider) => LanguageModel;
const chat: ToModel = ({ baseURL }) => openai('own-1', { baseURL });
const responses: ToModel = ({ baseURL }) => openai('own-1', { baseURL, api: 'responses' });
const messages: ToModel = ({ origin }) => anthropic('own-1', { baseURL: origin });

let provider: LocalProvider | undefined;
let module: TestingModule | undefined;

afterEach(async () => {
  await module?.close();
  await provider?.[Symbol.asyncDispose]();
  module = provider = undefined;
});

async function loopOf(toModel: ToModel, answer: Answer): Promise<ToolLoopService> {
  provider = await LocalProvider.start(answer);
  module = await Test.createTestingModule({
    imports: [ToolLoopModule.forRoot({ model: toModel(provider) })],
  }).compile();
  module.useLogger(false);
  await module.init();
  return module.get(ToolLoopService);
}

const ASKED = { prompt: 'Hi', actor: 'alice', tenant: 'acme' } satisfies LoopRequest;

async function eventsOf(
  toModel: ToModel,
  answer: Answer,
  request: Partial<LoopRequest> = {},
): Promise<LoopEvent[]> {
  const loop = await loopOf(toModel, answer);
  return lastValueFrom(loop.stream({ ...ASKED, ...request }).pipe(toArray()));
}

const data = (...payloads: readonly object[]): string =>
  payloads.map((payload) => `data: ${JSON.stringify(payload)}\n\n`).join('');
const openAiError = (status: number, error: object): Answer =>
  answers(status, JSON.stringify({ error }));
const anthropicError = (status: number, type: string, message = 'No.'): Answer =>
  answers(status, JSON.stringify({ type: 'error', error: { type, message } }));
const streamed = (error: object): Answer => streams(data({ error }));

describe('the code of a model error', () => {
  it.each<[string, ToModel, Answer]>([
    ['unauthorized', chat, openAiError(401, { message: 'No.', code: 'invalid_api_key' })],
    ['unauthorized', messages, anthropicError(401, 'authentication_error')],
    ['forbidden', messages, anthropicError(403, 'permission_error')],
    ['quota_exceeded', chat, openAiError(429, { message: 'No.', code: 'insufficient_quota' })],
    [
      'quota_exceeded',
      messages,
      anthropicError(400, 'invalid_request_error', 'Your credit balance is too low.'),
    ],
    ['rate_limited', chat, openAiError(429, { message: 'Slower.', code: 'rate_limit_exceeded' })],
    ['rate_limited', chat, streamed({ message: 'Slower.', type: 'rate_limit_error' })],
    ['context_length', chat, openAiError(400, { message: 'No.', code: 'context_length_exceeded' })],
    [
      'context_length',
      messages,
      anthropicError(
        400,
        'invalid_request_error',
        'prompt is too long: 210000 tokens > 200000 maximum',
      ),
    ],
    ['refused', chat, openAiError(400, { message: 'No.', code: 'content_filter' })],
    ['invalid_request', chat, openAiError(400, { message: 'No such field.' })],
    ['not_found', chat, openAiError(404, { message: 'No such model.', code: 'model_not_found' })],
    ['request_too_large', messages, anthropicError(413, 'request_too_large')],
    ['overloaded', messages, anthropicError(529, 'overloaded_error')],
    [
      'overloaded',
      messages,
      streams(data({ type: 'error', error: { type: 'overloaded_error', message: 'Busy.' } })),
    ],
    [
      'provider_error',
      responses,
      streams(
        data({
          type: 'response.failed',
          response: { error: { code: 'server_error', message: 'No.' } },
        }),
      ),
    ],
    ['provider_error', chat, openAiError(500, { message: 'No.' })],
    [
      'connection_lost',
      chat,
      (response) => response.writeHead(200).write(data({ choices: [] }), () => response.destroy()),
    ],
    ['invalid_answer', chat, answers(200, '<html></html>')],
    ['unknown', chat, streamed({ message: 'The tokens ran into a content_filter of theirs.' })],
  ])('is %s', async (code, toModel, answer) => {
    provider = await LocalProvider.start(answer);
    expect(await failureOf(toModel(provider))).toMatchObject({ code });
  });

  it('is unreachable without a server', async () => {
    expect(await failureOf(openai('own-1', { baseURL: 'http://127.0.0.1:9/v1' }))).toMatchObject({
      code: 'unreachable',
      isRetryable: true,
    });
  });

  it('is that of its status for a model of one’s own', () => {
    expect(
      [429, 402, 599, undefined].map(
        (status) => new ModelError('No.', { ...(status && { status }) }).code,
      ),
    ).toEqual(['rate_limited', 'quota_exceeded', 'provider_error', 'unknown']);
  });

  it('is in the failure of the run, with the words that may be shown', async () => {
    const loop = await loopOf(chat, openAiError(401, { message: 'No.' }));
    const error: unknown = await loop.run(ASKED).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(RunError);
    expect((error as RunError).result).toMatchObject({
      modelError: 'unauthorized',
      error: { code: 'model_error', message: 'The model could not answer.' },
    });
  });

  it('is in the end of a run that a time limit of its model has ended, in the event, the result and its JSON', async () => {
    const said = { finishReason: 'timeout', modelError: 'no_response' };
    const limits = { modelFirstByteMs: 40 };
    const events = await eventsOf(chat, () => undefined, { limits });
    expect(events.at(-1)).toMatchObject({ type: 'run-end', ...said });
    await module?.close();
    const result = await (await loopOf(chat, () => undefined)).run({ ...ASKED, limits });
    expect(result).toMatchObject(said);
    expect(result.toJSON()).toMatchObject(said);
  });

  it.each([301, 302, 307])(
    'is `not_found` for an address that redirects with %i, and says what to set',
    async (status) => {
      provider = await LocalProvider.start((response) =>
        response.writeHead(status, { location: 'http://127.0.0.1:9/' }).end(),
      );
      for (const model of [chat(provider), messages(provider)]) {
        expect(await failureOf(model)).toMatchObject({
          code: 'not_found',
          isRetryable: false,
          message: expect.stringContaining('Set `baseURL` to the address of the API itself.'),
        });
      }
    },
  );
});

describe('a key', () => {
  it.each(['a', 'none', 'ollama', 'no-key'])(
    'does not garble an error where it is as short as %s',
    async (apiKey) => {
      provider = await LocalProvider.start(
        openAiError(400, { message: 'There is none: an ollama, no-key and all that.' }),
      );
      const { message } = await failureOf(openai('own-1', { baseURL: provider.baseURL, apiKey }));
      expect(message).toBe(
        'The provider answered 400: There is none: an ollama, no-key and all that.',
      );
    },
  );
});

const HEADERS = { 'content-type': 'text/event-stream', 'x-request-id': 'req_1' };
const sends =
  (...payloads: readonly object[]): Answer =>
  (response) =>
    response.writeHead(200, HEADERS).end(data(...payloads));
const HELLO = sends(
  { id: '', choices: [] },
  { id: 'chatcmpl-1', model: 'served-1', choices: [{ delta: { content: 'Hello.' } }] },
  { id: 'chatcmpl-2', model: 'served-1', choices: [{ delta: {}, finish_reason: 'stop' }] },
);
const OUTPUT = [{ type: 'message', content: [{ type: 'output_text', text: 'Hello.' }] }];
const RESPONSE = sends({
  type: 'response.completed',
  response: { id: 'resp_1', model: 'served-2', status: 'completed', output: OUTPUT },
});
const MESSAGE = sends(
  {
    type: 'message_start',
    message: { id: 'msg_1', model: 'served-3', content: [{ type: 'text', text: 'Hello.' }] },
  },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' } },
  { type: 'message_stop' },
);

describe('an answer', () => {
  it.each<[string, ToModel, Answer, object]>([
    ['a chat completion', chat, HELLO, { id: 'chatcmpl-1', model: 'served-1' }],
    ['a response', responses, RESPONSE, { id: 'resp_1', model: 'served-2' }],
    ['a message', messages, MESSAGE, { id: 'msg_1', model: 'served-3' }],
    [
      'one of another attempt',
      (from) => retried(chat(from)),
      HELLO,
      { id: 'chatcmpl-1', model: 'served-1' },
    ],
  ])(
    'tells its id, the model that served it and the id of the request: %s',
    async (_what, toModel, answer, response) => {
      const events = await eventsOf(toModel, answer);
      expect(events.find(({ type }) => type === 'step-end')).toMatchObject({
        response: { ...response, requestId: 'req_1' },
      });
    },
  );
});

describe('an option that a provider does not have', () => {
  const modelOptions = { temperature: 0, topP: 1, seed: 7, stopSequences: ['x'] };

  it.each<[string, ToModel, Answer, readonly string[]]>([
    ['chat completions', chat, HELLO, []],
    [
      'chat completions with tools of the provider',
      ({ baseURL }) => openai('own-1', { baseURL, builtInTools: [{}] }),
      HELLO,
      ['builtInTools'],
    ],
    ['responses', responses, RESPONSE, ['seed', 'stopSequences']],
    ['messages', messages, MESSAGE, ['temperature', 'topP', 'seed']],
    [
      'messages of the older version',
      ({ origin }) => anthropic('own-1', { baseURL: origin, apiVersion: '2023-06-01' }),
      MESSAGE,
      ['seed'],
    ],
  ])('is a warning: %s', async (_what, toModel, answer, names) => {
    const events = await eventsOf(toModel, answer, { modelOptions });
    const warnings = events.flatMap((event) => (event.type === 'warning' ? [event] : []));
    expect(warnings.map(({ code }) => code)).toEqual(names.map(() => 'option_ignored'));
    expect(warnings.map(({ message }) => /"(\w+)"/.exec(message)?.[1])).toEqual(names);
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop' });
  });

  it('is told once a run', async () => {
    const empty = sends({
      type: 'response.completed',
      response: { status: 'completed', output: [] },
    });
    const events = await eventsOf(responses, empty, { modelOptions: { seed: 7 } });
    expect(events.filter(({ type }) => type === 'step-end')).toHaveLength(2);
    expect(
      events.filter((event) => event.type === 'warning' && event.code === 'option_ignored'),
    ).toHaveLength(1);
  });
});
