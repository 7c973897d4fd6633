import { afterEach, describe, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import { anthropic } from '@toolloop/anthropic';
import {
  type LanguageModel,
  type Limits,
  type LoopResult,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { openai } from '@toolloop/openai';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, LocalProvider } from '../../libs/wire/test/local-provider.js';
import { failureOf } from '../../libs/wire/test/read-model.js';

let provider: LocalProvider | undefined;
let module: TestingModule | undefined;

afterEach(async () => {
  await module?.close();
  await provider?.[Symbol.asyncDispose]();
  module = provider = undefined;
});

const chat = (): LanguageModel =>
  openai('own-1', { baseURL: provider?.baseURL ?? '', apiKey: 'k-1234567890' });
const responses = (): LanguageModel =>
  openai('own-1', { api: 'responses', baseURL: provider?.baseURL ?? '', apiKey: 'k-1234567890' });
const messages = (): LanguageModel =>
  anthropic('own-1', { baseURL: provider?.origin ?? '', apiKey: 'k-1234567890' });

async function run(
  toModel: () => LanguageModel,
  answer: Answer,
  limits: Partial<Limits>,
): Promise<LoopResult> {
  provider = await LocalProvider.start(answer);
  module = await Test.createTestingModule({
    imports: [ToolLoopModule.forRoot({ model: toModel() })],
  }).compile();
  module.useLogger(false);
  await module.init();
  return module.get(ToolLoopService).run({ prompt: 'Hi', actor: 'alice', tenant: 'acme', limits });
}

const data = (payload: object): string => `data: ${JSON.stringify(payload)}\n\n`;
const delta = (content: string, finish_reason: string | null = null): string =>
  data({ choices: [{ index: 0, delta: { content }, finish_reason }] });

/**
 * The longest silence within an answer: what comes every `PAUSE_MS` is no silence, and takes longer
 * altogether.
 */
const SILENCE_MS = 600;
const PAUSE_MS = 80;

/** Long enough for a first byte on any machine. */
const FIRST_BYTE_MS = 20_000;

/** Writes one part after the other, first part at once. */
async function write(
  response: ServerResponse,
  parts: readonly string[],
  pauseMs = 0,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const part of parts) {
    response.write(part);
    await sleep(pauseMs);
  }
}

function writesSlowly(...parts: readonly string[]): Answer {
  return (response) => void write(response, parts, PAUSE_MS).then(() => response.end());
}

function writesAndHangs(...parts: readonly string[]): Answer {
  return (response) => void write(response, parts);
}

/** Begins to answer after 300 ms. */
const late: Answer = (response) =>
  void sleep(300)
    .then(() => write(response, [delta('Hello.', 'stop')]))
    .then(() => response.end());

/** Writes a start, then pings without end. */
function pings(start: string, ping: string): Answer {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(start);
    const timer = setInterval(() => response.write(ping), 10);
    response.on('close', () => clearInterval(timer));
  };
}

const repeated = (part: string): readonly string[] => Array.from({ length: 8 }, () => part);
const START = data({
  type: 'message_start',
  message: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    content: [],
    usage: { input_tokens: 1, output_tokens: 1 },
  },
});
const PING = 'event: ping\ndata: {"type":"ping"}\n\n';
const block = (
  index: number,
  content_block: object,
  ...deltas: readonly object[]
): readonly string[] => [
  data({ type: 'content_block_start', index, content_block }),
  ...deltas.map((one) => data({ type: 'content_block_delta', index, delta: one })),
  data({ type: 'content_block_stop', index }),
];
const SAID = block(1, { type: 'text', text: '' }, { type: 'text_delta', text: 'Hello.' });
const REASON = data({
  type: 'message_delta',
  delta: { stop_reason: 'end_turn' },
  usage: { output_tokens: 5 },
});
const END = data({ type: 'message_stop' });
const SIGNED = block(
  0,
  { type: 'thinking', thinking: '', signature: '' },
  ...repeated('s').map((signature) => ({ type: 'signature_delta', signature })),
);
const COMPLETED = data({
  type: 'response.completed',
  response: {
    status: 'completed',
    output: [{ type: 'message', content: [{ type: 'output_text', text: 'Hello.' }] }],
  },
});

describe('a provider that is alive', () => {
  it.each<[string, () => LanguageModel, readonly string[]]>([
    [
      'pings in comments before its first word',
      chat,
      [...repeated(': PROCESSING\n\n'), delta('Hello.', 'stop')],
    ],
    [
      'pings in events before its first word',
      messages,
      [START, ...repeated(PING), ...SAID, REASON, END],
    ],
    ['streams a signature', messages, [START, ...SIGNED, ...SAID, REASON, END]],
    [
      'searches the web for long',
      responses,
      [
        ...repeated(data({ type: 'response.web_search_call.searching', output_index: 0 })),
        COMPLETED,
      ],
    ],
    [
      'sends white space before plain JSON',
      chat,
      [...repeated(' \n'), '{"choices":[{"message":{"content":"Hello."},"finish_reason":"stop"}]}'],
    ],
  ])('is not cut off while it %s', async (_what, toModel, parts) => {
    const result = await run(toModel, writesSlowly(...parts), {
      modelFirstByteMs: FIRST_BYTE_MS,
      modelIdleMs: SILENCE_MS,
    });
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Hello.' });
    expect(provider?.requests).toHaveLength(1);
  });

  it('is cut off where it sends no content within the limit for that', async () => {
    const result = await run(messages, pings(START, PING), {
      modelIdleMs: 5_000,
      modelFirstContentMs: 60,
      runMs: 20_000,
    });
    expect(result).toMatchObject({
      finishReason: 'timeout',
      finishDetail: 'The provider sent no content within 60 ms, though its connection was alive.',
    });
    await provider?.untilClosed();
  });
});

describe('a provider that is silent', () => {
  it('has a limit until its first byte, and another between bytes', async () => {
    const result = await run(chat, late, { modelFirstByteMs: FIRST_BYTE_MS, modelIdleMs: 100 });
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Hello.' });
  });

  it.each<[string, Answer, Partial<Limits>, string]>([
    [
      'does not begin to answer',
      () => undefined,
      { modelFirstByteMs: 60 },
      'The provider did not begin to answer within 60 ms.',
    ],
    [
      'sends its headers and nothing else',
      (response) => response.writeHead(200).flushHeaders(),
      { modelFirstByteMs: 60 },
      'The provider did not begin to answer within 60 ms.',
    ],
    [
      'falls silent in the middle',
      writesAndHangs(delta('Hel')),
      { modelFirstByteMs: FIRST_BYTE_MS, modelIdleMs: 60 },
      'The provider was silent for 60 ms in the middle of its answer.',
    ],
  ])('ends the run where it %s', async (_what, answer, limits, finishDetail) => {
    expect(await run(chat, answer, limits)).toMatchObject({
      finishReason: 'timeout',
      finishDetail,
    });
    await provider?.untilClosed();
  });

  it.each<[string, boolean, Answer, object]>([
    ['no_response', true, () => undefined, { firstByteMs: 30 }],
    ['no_content', false, pings(': here\n\n', ': here\n\n'), { firstContentMs: 30 }],
    ['idle', true, writesAndHangs(delta('Hel')), { idleMs: 30 }],
  ])(
    'is a ModelError with the code %s, for which another attempt makes sense: %s',
    async (code, isRetryable, answer, limits) => {
      provider = await LocalProvider.start(answer);
      const timeLimits = {
        firstByteMs: FIRST_BYTE_MS,
        firstContentMs: FIRST_BYTE_MS,
        idleMs: FIRST_BYTE_MS,
        ...limits,
      };
      const error = await failureOf(chat(), { messages: [], tools: [], timeLimits });
      expect(error).toMatchObject({ code, isRetryable });
      await provider.untilClosed();
    },
  );
});

describe('an answer of which the provider has said how it ends', () => {
  const HELLO = [delta('Hello.'), delta('', 'stop')];

  it.each<[string, () => LanguageModel, Answer]>([
    ['hangs', chat, writesAndHangs(...HELLO)],
    ['pings on', chat, pings(HELLO.join(''), ': here\n\n')],
    ['breaks', chat, (response) => void write(response, HELLO).then(() => response.destroy())],
    ['hangs', messages, writesAndHangs(START, ...SAID, REASON)],
    ['pings on', messages, pings([START, ...SAID, REASON].join(''), PING)],
    [
      'breaks',
      messages,
      (response) => void write(response, [START, ...SAID, REASON]).then(() => response.destroy()),
    ],
  ])('is not lost when its connection %s', async (_what, toModel, answer) => {
    const result = await run(toModel, answer, {
      modelFirstByteMs: FIRST_BYTE_MS,
      modelIdleMs: SILENCE_MS,
    });
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Hello.' });
    await provider?.untilClosed();
  });
});
