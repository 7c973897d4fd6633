import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, it } from '@jest/globals';
import { anthropic } from '@toolloop/anthropic';
import type { LanguageModel } from '@toolloop/core';
import { openai } from '@toolloop/openai';
import { languageModelContract, type ModelSituation, type ModelUnderTest } from '@toolloop/testing';

/** What a provider writes: its frames, and how they end. */
interface Speech {
  readonly frames: readonly string[];
  readonly ending: 'end' | 'break' | 'stay';
}

async function provider(speak: (situation: ModelSituation) => Speech, situation: ModelSituation) {
  let open = 0;
  const answer = (response: ServerResponse): void => {
    if (situation === 'refuses')
      return void response
        .writeHead(429, { 'content-type': 'application/json' })
        .end('{"error":{"type":"rate_limit"}}');
    const { frames, ending } = speak(situation);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const frame of frames) response.write(frame);
    if (ending === 'end') response.end();
    if (ending === 'break') setImmediate(() => response.destroy());
  };
  const server = createServer((request, response) => {
    open += 1;
    response.once('close', () => (open -= 1));
    request.resume().once('end', () => answer(response));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return { url: `http://127.0.0.1:${port}`, openConnections: () => open, close };
}

const ENDINGS: Readonly<Partial<Record<ModelSituation, Speech['ending']>>> = {
  breaks: 'break',
  stalls: 'stay',
};
const CITIES = ['Oslo', 'Bergen'].map((city) => JSON.stringify({ city }));

const chunk = (delta: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;

const frame = (type: string, data: object = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;

function chat(situation: ModelSituation): Speech {
  const begin = (index: number) =>
    chunk({
      tool_calls: [
        {
          index,
          id: `call_${index}`,
          type: 'function',
          function: { name: 'weather', arguments: '' },
        },
      ],
    });
  const args = (index: number, text: string) =>
    chunk({ tool_calls: [{ index, function: { arguments: text } }] });
  const words = [chunk({ role: 'assistant', content: 'Hello ' }), chunk({ content: 'there.' })];
  const frames: Readonly<Record<string, readonly string[]>> = {
    text: [...words, chunk({}, 'stop'), 'data: [DONE]\n\n'],
    calls: [
      ...CITIES.flatMap((city, index) => [
        begin(index),
        args(index, city.slice(0, 4)),
        args(index, city.slice(4)),
      ]),
      chunk({}, 'tool_calls'),
      'data: [DONE]\n\n',
    ],
    ends: [begin(0), args(0, '{"ci')],
  };
  return { frames: frames[situation] ?? words, ending: ENDINGS[situation] ?? 'end' };
}

function messages(situation: ModelSituation): Speech {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const opening = frame('message_start', {
    message: { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content: [], usage },
  });
  const begin = (index: number, block: object) =>
    frame('content_block_start', { index, content_block: block });
  const delta = (index: number, part: object) =>
    frame('content_block_delta', { index, delta: part });
  const stop = (index: number) => frame('content_block_stop', { index });
  const close = (reason: string) => [
    frame('message_delta', { delta: { stop_reason: reason }, usage }),
    frame('message_stop'),
  ];
  const call = (index: number) =>
    begin(index, { type: 'tool_use', id: `toolu_${index}`, name: 'weather', input: {} });
  const json = (index: number, text: string) =>
    delta(index, { type: 'input_json_delta', partial_json: text });
  const words = [
    begin(0, { type: 'text', text: '' }),
    ...['Hello ', 'there.'].map((text) => delta(0, { type: 'text_delta', text })),
  ];
  const frames: Readonly<Record<string, readonly string[]>> = {
    text: [opening, ...words, stop(0), ...close('end_turn')],
    calls: [
      opening,
      ...CITIES.flatMap((city, index) => [
        call(index),
        json(index, city.slice(0, 4)),
        json(index, city.slice(4)),
        stop(index),
      ]),
      ...close('tool_use'),
    ],
    ends: [opening, call(0), json(0, '{"ci')],
  };
  return { frames: frames[situation] ?? [opening, ...words], ending: ENDINGS[situation] ?? 'end' };
}

const under =
  (speak: (situation: ModelSituation) => Speech, modelAt: (url: string) => LanguageModel) =>
  async (situation: ModelSituation): Promise<ModelUnderTest> => {
    const { url, ...server } = await provider(speak, situation);
    return { model: modelAt(url), ...server };
  };

languageModelContract(
  'of OpenAI',
  under(chat, (url) => openai('m', { apiKey: 'k', baseURL: `${url}/v1` })),
  { describe, it },
);
languageModelContract(
  'of Anthropic',
  under(messages, (url) => anthropic('m', { apiKey: 'k', baseURL: url })),
  { describe, it },
);
