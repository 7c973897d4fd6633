import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { MessagesAnswer } from '../../libs/anthropic/src/messages-answer.js';
import { ChatAnswer } from '../../libs/openai/src/chat-answer.js';
import { ResponsesAnswer } from '../../libs/openai/src/responses-answer.js';
import { decodeInto, joined } from '../../libs/wire/test/decoded.js';
import type { WireAnswer } from '@toolloop/wire';
import { cases } from '../cases.js';

const RUNS = cases(300);

/** An API whose chunks of text are read by their form. */
interface Api {
  readonly create: () => WireAnswer;
  /** A chunk that says a text, the one of this number in its answer. */
  readonly chunk: (text: string, number: number) => object;
  /** Chunks that change what is read of those behind them, or look like chunks of text. */
  readonly others: readonly object[];
  readonly begin: readonly object[];
  readonly end: readonly object[];
}

const HEAD = { object: 'chat.completion.chunk', model: 'm' };
const DELTA = {
  type: 'response.output_text.delta',
  item_id: 'msg_1',
  output_index: 0,
  content_index: 0,
};

const APIS: Readonly<Record<string, Api>> = {
  chat: {
    create: () => new ChatAnswer({ model: 'm' }),
    chunk: (content, number) => ({
      id: `chatcmpl-${number}`,
      ...HEAD,
      created: 1_700_000_000 + number,
      choices: [{ index: number % 3, delta: { content }, finish_reason: null }],
      obfuscation: 'x'.repeat(number % 5),
    }),
    others: [
      {
        id: '',
        ...HEAD,
        created: 1,
        choices: [{ index: 0, delta: { content: 'a' }, finish_reason: null }],
        obfuscation: 'x',
      },
      {
        ...HEAD,
        id: 'other',
        model: 'n',
        choices: [{ index: 0, delta: { content: 'a' }, finish_reason: 'stop' }],
      },
      {
        ...HEAD,
        choices: [{ index: 0, delta: { content: 'a', reasoning: 'b' } }],
        usage: { prompt_tokens: 1, completion_tokens: 2 },
      },
      {
        ...HEAD,
        id: 7,
        created: null,
        choices: [{ index: -1, delta: { role: 'assistant', content: 'index' } }],
        citations: ['https://a.example'],
      },
      {
        ...HEAD,
        choices: [
          {
            index: 0,
            delta: {
              tool_calls: [{ index: 0, id: 'a', function: { name: 'look', arguments: '{}' } }],
            },
          },
        ],
      },
    ],
    begin: [],
    end: [{ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }],
  },
  responses: {
    create: () => new ResponsesAnswer({ model: 'm' }),
    chunk: (delta, number) => ({
      ...DELTA,
      sequence_number: number,
      delta,
      logprobs: [],
      obfuscation: 'x'.repeat(number % 5),
    }),
    others: [
      { type: 'response.refusal.delta', item_id: 'msg_1', output_index: 0, delta: 'No.' },
      {
        type: 'response.reasoning_text.delta',
        item_id: 'rs_1',
        output_index: 1,
        delta: 'Hm.',
        sequence_number: 3,
      },
      {
        type: 'response.reasoning_summary_text.delta',
        item_id: 'rs_1',
        output_index: 1,
        delta: 'Hm.',
        sequence_number: 4,
      },
      {
        type: 'response.output_text.delta',
        item_id: 'msg_2',
        output_index: 2,
        delta: 'a',
        sequence_number: 1.5,
        obfuscation: null,
      },
      { type: 'response.output_text.delta', delta: 'sequence_number' },
      {
        type: 'response.output_item.added',
        output_index: 0,
        item: { type: 'message', id: 'msg_3' },
      },
      {
        type: 'response.output_item.done',
        output_index: 0,
        item: { type: 'message', id: 'msg_1', content: [{ type: 'output_text', text: 'a' }] },
      },
    ],
    begin: [
      {
        type: 'response.output_item.added',
        output_index: 0,
        item: { type: 'message', id: 'msg_1' },
      },
    ],
    end: [{ type: 'response.completed', response: { status: 'completed', output: [] } }],
  },
  messages: {
    create: () => new MessagesAnswer({ model: 'm' }, 0),
    chunk: (text, number) => ({
      type: 'content_block_delta',
      index: number % 7 === 6 ? 1 : 0,
      delta: { type: 'text_delta', text },
    }),
    others: [
      { type: 'ping' },
      {
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'text_delta', text: 'a', citation: { url: 'https://a.example' } },
      },
      { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    ],
    begin: [{ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }],
    end: [{ type: 'message_delta', delta: { stop_reason: 'end_turn' } }, { type: 'message_stop' }],
  },
};

const word = fc.oneof(
  { weight: 4, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '',
      '"',
      '\\',
      '\\"',
      '\\u0022',
      '\n\n',
      '\r\n',
      '\u0000',
      '\u2028',
      '\ud800',
      '7',
      'id',
      '\u{E000}text\u{E000}',
    ),
  },
);

/** Ways to write an event around its payload. */
const FRAMES: readonly ((payload: string, number: number) => string)[] = [
  (payload) => `data: ${payload}\n\n`,
  (payload) => `data:${payload}\n\n`,
  (payload) => `event: message\ndata: ${payload}\n\n`,
  (payload, number) => `id: ${number}\ndata: ${payload}\n\n`,
  (payload) => `data: ${payload}\r\n\r\n`,
  (payload) => `: ping\n\ndata: ${payload}\n\n`,
  (payload, number) => `data: ${payload.slice(0, -1)}${' '.repeat(number % 4)}}\n\n`,
  (payload, number) => `data: ${payload}${' '.repeat(number % 2)}\n\n`,
  (payload) => `data: ${payload.replace(/,/, ',\ndata: ')}\n\n`,
  (payload, number) => `event: ${number % 4 === 3 ? 'error' : 'message'}\ndata: ${payload}\n\n`,
];

/** Ways to change the text of a payload. */
const DAMAGES: readonly ((payload: string) => string)[] = [
  (payload) => payload.slice(0, -1),
  (payload) => payload.replace('"', "'"),
  (payload) => payload.replace(/:(\d)/, ':0$1'),
  (payload) => payload.replace(/^\{/, '{"delta":"x","choices":[],'),
  (payload) => payload.replace(/\}$/, ',"delta":"x","choices":[]}'),
  (payload) => payload.replace(/"(\w)/, String.raw`"\u0041$1`),
  () => '[DONE]',
];

/** All that is read of an answer. */
function decoded(answer: WireAnswer, reads: readonly Uint8Array[]): object {
  const { events, failure } = decodeInto(answer, reads);
  return { events: joined(events), failure: failure?.message, identity: answer.identity };
}

describe.each(Object.entries(APIS))(
  'chunks of text over the API %s',
  (_name, { create, chunk, others, begin, end }) => {
    const said = word.map((text) => ({ text }));
    const other = fc.nat(others.length - 1).map((at) => ({ other: others[at] ?? {} }));
    const damaged = fc
      .tuple(word, fc.nat(DAMAGES.length - 1))
      .map(([text, damage]) => ({ text, damage }));
    const item = fc.oneof(
      { weight: 6, arbitrary: said },
      { weight: 1, arbitrary: other },
      { weight: 1, arbitrary: damaged },
    );

    it(`give the same in one read as in many, however they are framed, cut and damaged, ${RUNS} times`, () => {
      fc.assert(
        fc.property(
          fc.array(item, { maxLength: 40 }),
          fc.nat(FRAMES.length - 1),
          fc.option(fc.nat(FRAMES.length - 1)),
          fc.array(fc.nat(5000), { maxLength: 6 }),
          fc.constantFrom(1, 4, 100), // the chunks one behind the other that begin equally
          (items, framing, second, cuts, equal) => {
            const payloads = [
              ...begin.map((one) => JSON.stringify(one)),
              ...items.map((one, number) => {
                const payload = JSON.stringify(
                  'other' in one ? one.other : chunk(one.text, Math.floor(number / equal)),
                );
                return 'damage' in one ? (DAMAGES[one.damage]?.(payload) ?? payload) : payload;
              }),
              ...end.map((one) => JSON.stringify(one)),
            ];
            const frame = (number: number) =>
              FRAMES[(number % 5 === 4 ? second : undefined) ?? framing] ?? String;
            const bytes = Buffer.from(
              payloads.map((payload, number) => frame(number)(payload, number)).join(''),
            );
            const places = [0, ...cuts.toSorted((one, two) => one - two), bytes.length];
            const reads = places.slice(1).map((to, index) => bytes.subarray(places[index], to));
            expect(decoded(create(), reads)).toEqual(decoded(create(), [bytes]));
          },
        ),
        { numRuns: RUNS },
      );
    });
  },
);
