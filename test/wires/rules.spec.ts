import { describe, expect, it } from '@jest/globals';
import { decodeMessages } from '@toolloop/anthropic';
import { ModelError } from '@toolloop/core';
import { assemble, type ModelAnswer, type ModelEvent } from '@toolloop/protocol';
import { decodeChatCompletions, decodeResponses } from '@toolloop/openai';

/** What holds of every wire: how bytes become payloads, and what is an error whatever the API. */
interface Wire {
  readonly decode: (body: AsyncIterable<Uint8Array>) => AsyncIterable<ModelEvent>;
  /** Payloads of an answer that says "Grüße 🚚" and makes one call. */
  readonly payloads: readonly object[];
  /** The same for a server that does not stream. */
  readonly whole: object;
  /** A payload of tomorrow. */
  readonly unknown: object;
}

const ARGUMENTS = '{"at":"é\u2028"}';
const CALL = {
  type: 'function_call',
  id: 'fc_1',
  call_id: 'call_a',
  name: 'look',
  arguments: ARGUMENTS,
};
const SAID = {
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  content: [{ type: 'output_text', text: 'Grüße 🚚' }],
};
const RESPONSE = {
  status: 'completed',
  output: [SAID, CALL],
  usage: { input_tokens: 3, output_tokens: 4 },
};
const TOOL_CALL = {
  index: 0,
  id: 'call_a',
  type: 'function',
  function: { name: 'look', arguments: ARGUMENTS },
};
const BLOCKS = [
  { type: 'text', text: 'Grüße 🚚' },
  { type: 'tool_use', id: 'call_a', name: 'look', input: { at: 'é\u2028' } },
];

const WIRES: Readonly<Record<string, Wire>> = {
  chat: {
    decode: decodeChatCompletions,
    payloads: [
      { choices: [{ index: 0, delta: { role: 'assistant', content: 'Grüße ' } }] },
      { choices: [{ index: 0, delta: { content: '🚚' } }] },
      { choices: [{ index: 0, delta: { tool_calls: [TOOL_CALL] }, finish_reason: 'tool_calls' }] },
      { choices: [], usage: { prompt_tokens: 3, completion_tokens: 4 } },
    ],
    whole: {
      choices: [
        { message: { content: 'Grüße 🚚', tool_calls: [TOOL_CALL] }, finish_reason: 'tool_calls' },
      ],
      usage: { prompt_tokens: 3, completion_tokens: 4 },
    },
    unknown: { object: 'of.tomorrow', x: 1 },
  },
  responses: {
    decode: decodeResponses,
    payloads: [
      { type: 'response.created', response: { status: 'in_progress', output: [] } },
      { type: 'response.output_text.delta', output_index: 0, item_id: 'msg_1', delta: 'Grüße ' },
      { type: 'response.output_text.delta', output_index: 0, item_id: 'msg_1', delta: '🚚' },
      { type: 'response.output_item.done', output_index: 1, item: CALL },
      { type: 'response.completed', response: RESPONSE },
    ],
    whole: RESPONSE,
    unknown: { type: 'response.of_tomorrow', delta: 'no', output_index: 0 },
  },
  messages: {
    decode: decodeMessages,
    payloads: [
      {
        type: 'message_start',
        message: { content: [], usage: { input_tokens: 3, output_tokens: 1 } },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Grüße ' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: '🚚' } },
      { type: 'content_block_stop', index: 0 },
      {
        type: 'content_block_start',
        index: 1,
        content_block: { type: 'tool_use', id: 'call_a', name: 'look', input: {} },
      },
      {
        type: 'content_block_delta',
        index: 1,
        delta: { type: 'input_json_delta', partial_json: '' },
      },
      {
        type: 'content_block_delta',
        index: 1,
        delta: { type: 'input_json_delta', partial_json: ARGUMENTS },
      },
      { type: 'content_block_stop', index: 1 },
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 4 } },
      { type: 'message_stop' },
    ],
    whole: {
      type: 'message',
      content: BLOCKS,
      stop_reason: 'tool_use',
      usage: { input_tokens: 3, output_tokens: 4 },
    },
    unknown: { type: 'of_tomorrow', index: 0, delta: { type: 'text_delta', text: 'no' } },
  },
};

const EXPECTED: Partial<ModelAnswer> = {
  text: 'Grüße 🚚',
  finishReason: 'tool_calls',
  usage: { inputTokens: 3, outputTokens: 4 },
  toolCalls: [{ toolCallId: 'call_a', name: 'look', arguments: ARGUMENTS }],
};

async function* inReads(
  bytes: Uint8Array,
  size: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  for (let at = 0; at < bytes.length; at += size)
    yield await Promise.resolve(bytes.subarray(at, at + size));
}

function answerTo(
  { decode }: Wire,
  text: string,
  size = text.length * 4 + 1,
): Promise<ModelAnswer> {
  return assemble(decode(inReads(Buffer.from(text), size)));
}

async function failureOf(wire: Wire, text: string): Promise<ModelError> {
  const failure: unknown = await answerTo(wire, text).catch((error: unknown) => error);
  if (failure instanceof ModelError) return failure;
  throw new Error('There was no ModelError.', { cause: failure });
}

/** How a server may frame the payloads. */
type Framing = (payloads: readonly object[], wire: Wire) => string;

const framed = (payloads: readonly object[], separator = '\n\n', before = 'data: '): string =>
  payloads.map((payload) => `${before}${JSON.stringify(payload)}${separator}`).join('');

const FRAMINGS: Readonly<Record<string, Framing>> = {
  'as most do': (payloads) => `${framed(payloads)}data: [DONE]\n\n`,
  'without [DONE]': (payloads) => framed(payloads),
  'with [DONE] twice': (payloads) => `${framed(payloads)}data: [DONE]\n\ndata: [DONE]\n\n`,
  'with [DONE] in blanks': (payloads) => `${framed(payloads)}data:  [DONE] \n\n`,
  'without the last blank line': (payloads) => framed(payloads).slice(0, -1),
  'without the last line end': (payloads) => framed(payloads).slice(0, -2),
  'with CRLF': (payloads) => framed(payloads, '\r\n\r\n'),
  'with CR': (payloads) => framed(payloads, '\r\r'),
  'with CR, the last line open': (payloads) => framed(payloads, '\r\r').slice(0, -2),
  'with line ends of all kinds': (payloads) =>
    payloads.map((one, at) => framed([one], ['\n\r\n', '\r\n\n', '\r\r\n'][at % 3])).join(''),
  'without a blank behind the colon': (payloads) => framed(payloads, '\n\n', 'data:'),
  'with a byte order mark': (payloads) => `\ufeff${framed(payloads)}`,
  'with blank lines first': (payloads) => `\n\r\n\n${framed(payloads)}`,
  'with more blank lines than are needed': (payloads) => framed(payloads, '\n\n\n\n'),
  'with comments everywhere': (payloads) =>
    `: hello\n\n${framed(payloads, '\n: OPENROUTER PROCESSING\n\n:\n\n')}`,
  'with a comment between the lines of an event': (payloads) =>
    framed(payloads, '\n\n', 'id: 7\n: keep-alive\nretry: 3000\ndata: '),
  'with ids that repeat': (payloads) => framed(payloads, '\n\n', 'id: 0\ndata: '),
  'with a time to wait that is none': (payloads) => framed(payloads, '\n\n', 'retry: soon\ndata: '),
  'with unknown fields': (payloads) => framed(payloads, '\n\n', 'shiny: 1\nshiny\ndata: '),
  'with one name for all events': (payloads) => framed(payloads, '\n\n', 'event: message\ndata: '),
  'with data in many lines': (payloads) =>
    payloads
      .map(
        (payload) =>
          `${JSON.stringify(payload, undefined, 1).replaceAll(/(^|\n)/g, '$1data: ')}\n\n`,
      )
      .join(''),
  'with the name behind the data': (payloads) => framed(payloads, '\nevent: message\n\n'),
  'with keep-alives': (payloads) =>
    framed(
      payloads,
      '\n\ndata:\n\ndata: ping\n\nevent: ping\ndata: {"type": "ping"}\n\nevent: ping\n\n',
    ),
  'with payloads that are null, numbers and lists': (payloads) =>
    framed(payloads.slice(0, -1), '\n\ndata: null\n\ndata: 5\n\ndata: []\n\n') +
    framed(payloads.slice(-1)),
  'with payloads of tomorrow': (payloads, { unknown }) =>
    framed(payloads.flatMap((payload) => [unknown, payload])),
  'with fields of tomorrow': (payloads) =>
    framed(
      payloads.map((payload) => ({ obfuscation: 'xyz', p: 'ab', sequence_number: 7, ...payload })),
    ),
  'in escapes': (payloads) =>
    framed(payloads).replaceAll(
      /[\u0080-\uffff]/g,
      (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ),
  'not at all': (_payloads, { whole }) => JSON.stringify(whole, undefined, 2),
  'not at all, behind blanks and a mark': (_payloads, { whole }) =>
    `\ufeff\n  \n${JSON.stringify(whole)}\n`,
};

describe.each(Object.entries(WIRES))('the wire of %s', (name, wire) => {
  it.each(Object.entries(FRAMINGS))(
    'understands an answer that is framed %s, in one read and byte by byte',
    async (_how, framing) => {
      const text = framing(wire.payloads, wire);
      expect(await answerTo(wire, text)).toMatchObject(EXPECTED);
      expect(await answerTo(wire, text, 1)).toMatchObject(EXPECTED);
      expect(await answerTo(wire, text, 3)).toMatchObject(EXPECTED);
    },
  );

  it('reads nothing behind the end', async () => {
    const text = `${framed(wire.payloads)}data: [DONE]\n\n${framed(wire.payloads)}event: error\ndata: late\n\n`;
    expect(await answerTo(wire, text)).toMatchObject(EXPECTED);
  });

  it('takes no answer for whole that was cut between two events, and runs nothing of it', async () => {
    const ends = { chat: 2, responses: 4, messages: 9 }[name] ?? 0;
    for (let end = 0; end <= ends; end += 1) {
      for (const last of ['', 'data: [DONE]\n\n']) {
        expect(
          (await answerTo(wire, framed(wire.payloads.slice(0, end)) + last)).finishReason,
        ).toBe('incomplete');
      }
    }
  });

  it.each([
    [
      'an error in JSON',
      'event: error\ndata: {"error":{"message":"Busy.","type":"overloaded_error"}}\n\n',
      'overloaded_error: Busy.',
    ],
    ['an error with the name behind', 'data: {"message":"Busy."}\nevent: error\n\n', 'Busy.'],
    ['an error of a proxy', 'event: error\ndata: Busy.\n\n', 'Busy.'],
    ['an error without a word', 'event: error\ndata:\n\n', 'It does not say why.'],
    ['an error without a name', 'data: {"error":{"message":"Busy."}}\n\n', 'Busy.'],
    ['an error that is a text', 'data: {"error":"Busy."}\n\n', 'Busy.'],
    ['an error that says nothing', 'data: {"error":{}}\n\n', 'It does not say why.'],
    [
      'an error in its own words',
      'data: {"type":"error","error":{"type":"overloaded_error","message":"Busy."}}\n\n',
      'overloaded_error: Busy.',
    ],
  ])('fails for %s, wherever it comes', async (_what, event, words) => {
    for (let at = 0; at < wire.payloads.length; at += 1) {
      const text = framed(wire.payloads.slice(0, at)) + event + framed(wire.payloads.slice(at));
      expect((await failureOf(wire, text)).message).toBe(
        `The provider reported an error: ${words}`,
      );
    }
  });

  it.each([
    [
      'an error',
      '{"error":{"message":"No such model.","code":404}}',
      'The provider reported an error: No such model.',
    ],
    [
      'an error that is a text',
      '{"error":"model not found"}',
      'The provider reported an error: model not found',
    ],
    [
      'an error of its type',
      '{"type":"error","error":{"type":"not_found_error","message":"No."}}',
      'reported an error: not_found_error: No.',
    ],
    [
      'an error in a list',
      '[{"error":{"code":400,"message":"Bad."}}]',
      'The provider reported an error: Bad.',
    ],
    ['a page', '\n<!DOCTYPE html><html><body>502</body></html>', 'The server answered with HTML'],
    [
      'a text',
      'upstream connect error or disconnect/reset before headers',
      'The server answered with text',
    ],
    [
      'a text that looks like a field',
      'error: no healthy upstream',
      'The server answered with text',
    ],
    ['other JSON', '{"detail":"Not Found"}', 'The server answered with other JSON'],
    ['half a JSON', '{"choices":[{"output":[', 'The provider sent a JSON body that is not valid.'],
    [
      'lines of JSON',
      '{"choices":[],"output":[]}\n{"choices":[],"output":[]}\n',
      'The provider sent a JSON body that is not valid.',
    ],
  ])('fails for a body of status 200 that is %s', async (_what, body, message) => {
    expect((await failureOf(wire, body)).message).toContain(message);
  });

  it('makes no whole answer of one of whose payloads cannot be read', async () => {
    const [first = '', ...rest] = wire.payloads.map((payload) => framed([payload]));
    const answer = await answerTo(wire, `${first}data: {"type":"resp\n\n${rest.join('')}`);
    expect(answer).toMatchObject({ text: 'Grüße 🚚', finishReason: 'incomplete' });
  });
});
