import { afterEach, describe, expect, it, jest } from '@jest/globals';
import * as fc from 'fast-check';
import { cases } from '../../../test/cases.js';
import { decodeInto, joined, type Decoded } from '../../wire/test/decoded.js';
import { MessagesAnswer } from '../src/messages-answer.js';

const RUNS = cases(300);

/** Parses every event. */
class PlainAnswer extends MessagesAnswer {
  override textIn(): undefined {
    return undefined;
  }
}

const word = fc.oneof(fc.constantFrom('', 'Hi', '"', '\\', 'é', '🚚', '\n', 'text', 'text_delta', '\ud800'), fc.string({ maxLength: 5 }));
const index = fc.nat(2);
const textDelta = (at: number, text: string): object => ({ type: 'content_block_delta', index: at, delta: { type: 'text_delta', text } });
const event = fc.oneof(
  { weight: 12, arbitrary: fc.tuple(index, word).map(([at, text]) => textDelta(at, text)) },
  {
    weight: 3,
    arbitrary: index.map((at): object => ({ type: 'content_block_start', index: at, content_block: { type: 'text', text: '' } })),
  },
  { weight: 1, arbitrary: index.map((at): object => ({ type: 'content_block_stop', index: at })) },
  {
    weight: 2,
    arbitrary: fc.tuple(index, word, word).map(([at, text, thinking]): object => ({
      type: 'content_block_delta',
      index: at,
      delta: { type: 'text_delta', text, thinking },
    })),
  },
  {
    weight: 1,
    arbitrary: index.map((at): object => ({
      type: 'content_block_delta',
      index: at,
      delta: { type: 'text_delta', text: 'x', citation: { type: 'web_search_result_location', url: 'https://a.example' } },
    })),
  },
  { weight: 1, arbitrary: fc.constant<object>({ type: 'ping' }) },
);

const stream = (events: readonly object[]): string =>
  [...events, { type: 'message_delta', delta: { stop_reason: 'end_turn' } }, { type: 'message_stop' }]
    .map((one) => `data: ${JSON.stringify(one)}\n\n`)
    .join('');

function comparable({ events, failure }: Decoded): string {
  return JSON.stringify([joined(events), failure?.message]);
}

describe('events that are read by their form', () => {
  afterEach(() => {
    jest.restoreAllMocks();
  });

  it(`give what parsing each of them gives, ${RUNS} times`, () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 30 }), fc.nat(2), (events, repeats) => {
        const start = { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } };
        const bytes = stream([start, ...events.flatMap((one) => Array.from({ length: repeats + 1 }, () => one))]);
        expect(comparable(decodeInto(new MessagesAnswer({ model: 'm' }), [bytes]))).toBe(
          comparable(decodeInto(new PlainAnswer({ model: 'm' }), [bytes])),
        );
      }),
      { numRuns: RUNS },
    );
  });

  it('are parsed a few times in an answer of 500 that differ in their text', () => {
    const words = Array.from({ length: 500 }, (_, number) => ` word ${number}`);
    const start = { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } };
    const bytes = stream([start, ...words.map((text) => textDelta(0, text))]);
    const parse = jest.spyOn(JSON, 'parse');
    const { events } = decodeInto(new MessagesAnswer({ model: 'm' }), [bytes]);
    expect(events[0]).toEqual({ type: 'text-delta', text: words.join('') });
    expect(parse.mock.calls.length).toBeLessThanOrEqual(5);
  });
});
