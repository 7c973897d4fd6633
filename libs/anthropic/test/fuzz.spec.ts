import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { cases } from '../../../test/cases.js';
import { answer, block, call, decode, text, thinking } from './decode.js';

const RUNS = cases(1_000);

const STREAMS = [
  answer(
    [
      ...thinking(0, 'Hm “so”', 's1=='),
      ...text(1, 'Hi ', '🚚'),
      ...call(2, 'toolu_a', 'look', '{"at":', '"é"}'),
    ],
    'tool_use',
  ),
  answer([
    ...block(
      0,
      { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
      { type: 'input_json_delta', partial_json: '{}' },
    ),
    ...text(1, 'x'),
  ]),
  JSON.stringify({
    type: 'message',
    content: [{ type: 'text', text: 'Hi' }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 1 },
  }),
].map((stream) => Buffer.from(stream));

/** Values and pieces that stand somewhere else in such streams, or should stand nowhere. */
const PIECES = (
  'null|{}|[]|""|-1|1e999|"type":"message_start"|"type":"error"|"index":2|\n\n|\r|data: |event: error\n|\ufeff|\u0000|"__proto__":{"x":1}|{"content_block":{}}|' +
  'data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use"}}\n\n|data: {"type":"content_block_stop","index":0}\n\n'
).split('|');

const cut = fc.record({ at: fc.nat(3_000), length: fc.nat(200) });
const put = fc.record({
  at: fc.nat(3_000),
  piece: fc.oneof(
    fc.constantFrom(...PIECES.map((piece) => Buffer.from(piece))),
    fc.uint8Array({ maxLength: 8 }),
  ),
});
const swap = fc.record({ at: fc.nat(3_000), byte: fc.nat(255) });
const mutation = fc.oneof(cut, put, swap);

type Mutation = { at: number } & ({ length: number } | { piece: Uint8Array } | { byte: number });

function mutated(bytes: Buffer, change: Mutation): Buffer {
  const at = change.at % (bytes.length + 1);
  if ('length' in change)
    return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + change.length)]);
  if ('piece' in change)
    return Buffer.concat([bytes.subarray(0, at), change.piece, bytes.subarray(at)]);
  return Buffer.concat([bytes.subarray(0, at), Uint8Array.of(change.byte), bytes.subarray(at + 1)]);
}

describe('a stream with anything wrong in it', () => {
  it(
    `ends in one finish or in a failure, and never in calls without a name (${RUNS} of them)`,
    () => {
      fc.assert(
        fc.property(
          fc.constantFrom(...STREAMS),
          fc.array(mutation, { minLength: 1, maxLength: 6 }),
          fc.nat(200),
          (stream, changes, size) => {
            const bytes = changes.reduce<Buffer>(mutated, stream);
            const reads = Array.from({ length: Math.ceil(bytes.length / (size + 1)) }, (_, index) =>
              bytes.subarray(index * (size + 1), (index + 1) * (size + 1)),
            );
            const { events, failure } = decode(reads);
            const finishes = events.flatMap(({ type }, index) =>
              type === 'finish' ? [index] : [],
            );
            expect(finishes).toEqual(failure === undefined ? [events.length - 1] : []);
            const calls = events.filter((event) => event.type === 'tool-call');
            expect(new Set(calls.map(({ toolCallId }) => toolCallId)).size).toBe(calls.length);
            expect(calls.every(({ name, toolCallId }) => name !== '' && toolCallId !== '')).toBe(
              true,
            );
            expect(() => structuredClone(events)).not.toThrow();
          },
        ),
        { numRuns: RUNS },
      );
    },
    60_000 + RUNS * 5,
  );
});
