import { afterEach, describe, expect, it, jest } from '@jest/globals';
import * as fc from 'fast-check';
import { cases } from '../../../test/cases.js';
import { decodeInto, joined, type Decoded } from '../../wire/test/decoded.js';
import { ChatAnswer } from '../src/chat-answer.js';

const RUNS = cases(300);

/** Parses every chunk. */
class PlainAnswer extends ChatAnswer {
  override textIn(): undefined {
    return undefined;
  }
}

const HEAD = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm' };
const word = fc.oneof(
  fc.constantFrom(
    '',
    'Hi',
    '"',
    '\\',
    '\\"',
    'é',
    '🚚',
    '\u2028',
    '\n',
    '\u0000',
    'content',
    'chatcmpl-1',
    '","x":"',
    '\u{E000}text\u{E000}',
    '\ud800',
  ),
  fc.string({ maxLength: 5 }),
);
function argumentsOf(text: string, call: object): object {
  return { tool_calls: [{ ...call, function: { arguments: text } }] };
}
const rest = fc.constantFrom<object>(
  {},
  {},
  {},
  { usage: null },
  { usage: { prompt_tokens: 3, completion_tokens: 1 } },
  { usage: { prompt_tokens: 4, completion_tokens: 2 } },
  { citations: ['https://a.example'] },
  { error: { message: 'No.' } },
);
const delta = fc.oneof(
  { weight: 12, arbitrary: word.map((content): object => ({ content })) },
  { weight: 1, arbitrary: word.map((content): object => ({ role: 'assistant', content, refusal: null })) },
  { weight: 1, arbitrary: fc.tuple(word, word).map(([content, reasoning]): object => ({ content, reasoning })) },
  { weight: 1, arbitrary: word.map((refusal): object => ({ content: 'x', refusal })) },
  { weight: 1, arbitrary: fc.constant<object>({ tool_calls: [{ index: 0, id: 'a', function: { name: 'look', arguments: '{}' } }] }) },
  { weight: 4, arbitrary: fc.tuple(word, fc.constantFrom(0, 1)).map(([text, index]): object => argumentsOf(text, { index })) },
  { weight: 1, arbitrary: fc.tuple(word, word).map(([text, id]): object => argumentsOf(text, { index: 0, id })) },
  { weight: 1, arbitrary: word.map((text): object => argumentsOf(text, { index: 0, type: 'function', extra_content: { sign: text } })) },
);
const payload = fc.oneof(
  {
    weight: 20,
    arbitrary: fc
      .tuple(delta, rest, fc.constantFrom(undefined, undefined, 1), fc.option(word), fc.constantFrom(null, null, null, 'stop', 'length'))
      .map(([one, more, indent, obfuscation, finish_reason]) =>
        JSON.stringify(
          { ...HEAD, choices: [{ index: 0, delta: one, finish_reason }], ...more, ...(obfuscation !== null && { obfuscation }) },
          null,
          indent,
        ).replaceAll('\n', ''),
      ),
  },
  // What a parser reads of a name that is there twice is the last.
  {
    weight: 2,
    arbitrary: fc
      .tuple(word, word)
      .map(([one, two]) => `{"choices":[{"delta":{"content":${JSON.stringify(one)},"content":${JSON.stringify(two)}}}]}`),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom('{', '{"choices":[{"delta":{"content":"a"}}]', 'ping', '{"choices":[{"delta":{"content":"a"b"}}]}'),
  },
);

function comparable({ events, failure }: Decoded): string {
  return JSON.stringify([joined(events), failure?.message]);
}

function callChunk(one: object): string {
  return JSON.stringify({ ...HEAD, choices: [{ index: 0, delta: one, finish_reason: null }] });
}

/** Two calls, to whose arguments further chunks add. */
const CALLS = [0, 1].map((index) => callChunk({ tool_calls: [{ index, id: `call ${index}`, function: { name: 'look', arguments: '' } }] }));
const stream = (payloads: readonly string[]): string => payloads.map((one) => `data: ${one}\n\n`).join('') + 'data: [DONE]\n\n';
const textChunk = (content: string, more: object = {}): string =>
  JSON.stringify({ ...HEAD, choices: [{ index: 0, delta: { content }, logprobs: null, finish_reason: null }], ...more });

const usage = (tokens: number): object => ({ usage: { prompt_tokens: tokens, completion_tokens: 1 } });

describe('chunks that are read by their form', () => {
  afterEach(() => {
    jest.restoreAllMocks();
  });

  it(`give what parsing each of them gives, ${RUNS} times`, () => {
    fc.assert(
      fc.property(fc.array(payload, { maxLength: 60 }), fc.nat(3), (payloads, repeats) => {
        const bytes = stream([...CALLS, ...payloads.flatMap((one) => Array.from({ length: repeats + 1 }, () => one))]);
        expect(comparable(decodeInto(new ChatAnswer({ model: 'm' }), [bytes]))).toBe(
          comparable(decodeInto(new PlainAnswer({ model: 'm' }), [bytes])),
        );
      }),
      { numRuns: RUNS },
    );
  });

  it.each([
    ['their text', () => ({})],
    ["their text and the provider's padding", (index: number) => ({ usage: null, obfuscation: 'x'.repeat(index % 9) })],
  ])('are parsed a few times in an answer of 500 that differ in %s', (_what, more) => {
    const words = Array.from({ length: 500 }, (_, index) => ` word ${index}`);
    const bytes = stream(words.map((text, index) => textChunk(text, more(index))));
    const parse = jest.spyOn(JSON, 'parse');
    const { events } = decodeInto(new ChatAnswer({ model: 'm' }), [bytes]);
    expect(events[0]).toEqual({ type: 'text-delta', text: words.join('') });
    expect(parse.mock.calls.length).toBeLessThanOrEqual(2);
  });

  it.each([
    ['500 add to the arguments of a call', 500, 10],
    ['seven do, each of them once: no form is looked for', 7, 8],
  ])('are parsed a few times where %s', (_what, count, parsed) => {
    const pieces = Array.from({ length: count }, (_, index) => `"piece ${index}",`);
    const first = callChunk({ tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'look', arguments: '' } }] });
    const bytes = stream([first, ...pieces.map((text) => callChunk(argumentsOf(text, { index: 0 })))]);
    const parse = jest.spyOn(JSON, 'parse');
    const { events } = decodeInto(new ChatAnswer({ model: 'm' }), [bytes]);
    expect(events[0]).toEqual({ type: 'tool-call-delta', toolCallId: 'a', name: 'look', argumentsDelta: pieces.join('') });
    const ofPayloads = parse.mock.calls.filter(([text]) => text.startsWith('{'));
    expect(ofPayloads.length).toBe(parsed);
  });

  it('are parsed at most five times more than without where every chunk has another form', () => {
    const bytes = stream(Array.from({ length: 500 }, (_, created) => textChunk(` word ${created}`, { created })));
    const parse = jest.spyOn(JSON, 'parse');
    decodeInto(new ChatAnswer({ model: 'm' }), [bytes]);
    expect(parse.mock.calls.length).toBeLessThanOrEqual(505);
  });

  it('do not bring back what a chunk of another form has replaced', () => {
    const bytes = stream([textChunk('a', usage(1)), textChunk('b', usage(1)), textChunk('c', usage(2)), textChunk('d', usage(1))]);
    const { events } = decodeInto(new ChatAnswer({ model: 'm' }), [bytes]);
    expect(events).toContainEqual({ type: 'usage', usage: { inputTokens: 1, outputTokens: 1 } });
    expect(comparable(decodeInto(new ChatAnswer({ model: 'm' }), [bytes]))).toBe(
      comparable(decodeInto(new PlainAnswer({ model: 'm' }), [bytes])),
    );
  });
});
