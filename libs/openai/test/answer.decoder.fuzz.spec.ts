import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { cases } from '../../../test/cases.js';
import { chunk, decode, joined, sse, type Decoded } from './decode.js';

const RUNS = cases(300);

const TIMEOUT_MS = 60_000 + RUNS * 20;

const word = fc.oneof(
  fc.constantFrom('', 'Hi', '{}', '{"a":', '1}', '\u2028é', '🚚', '[DONE]', '\n\ndata: {}'),
  fc.string({ maxLength: 6 }),
);
const odd = fc.constantFrom(null, true, -1, 1e300, '', [], {}, [null], { a: [] }, '__proto__');
const index = fc.oneof({ weight: 6, arbitrary: fc.nat(3) }, { weight: 1, arbitrary: odd });
const id = fc.oneof(
  { weight: 9, arbitrary: fc.constantFrom('call_a', 'call_b', '') },
  { weight: 1, arbitrary: odd },
);
const name = fc.oneof(
  { weight: 9, arbitrary: fc.constantFrom('get_order', 'list_orders') },
  { weight: 1, arbitrary: odd },
);

const chatCall = fc.record(
  {
    index,
    id,
    function: fc.record({ name, arguments: fc.oneof(word, odd) }, { requiredKeys: [] }),
  },
  { requiredKeys: [] },
);
const chatDelta = fc.record(
  {
    content: fc.oneof(word, odd),
    reasoning: word,
    reasoning_content: fc.oneof(word, odd),
    reasoning_details: fc.array(fc.record({ type: word, text: word, index: fc.nat(2) })),
    refusal: word,
    tool_calls: fc.oneof(fc.array(chatCall, { maxLength: 3 }), odd),
  },
  { requiredKeys: [] },
);
const reason = fc.oneof(
  fc.constantFrom('stop', 'tool_calls', 'length', 'content_filter', 'error'),
  odd,
);
const count = fc.oneof(fc.nat(9), odd);
const chatPayload = fc.oneof(
  {
    weight: 8,
    arbitrary: fc
      .tuple(chatDelta, reason)
      .map(([delta, finish]) => ({ choices: [{ delta, finish_reason: finish }] })),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      choices: odd,
      usage: fc.record({ prompt_tokens: count, completion_tokens: count }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ error: odd }) },
);

const item = fc.record(
  {
    type: fc.constantFrom(
      'function_call',
      'message',
      'reasoning',
      'web_search_call',
      'custom_tool_call',
    ),
    id,
    call_id: id,
    name,
    arguments: fc.oneof(word, odd),
    content: fc.oneof(
      odd,
      fc.array(
        fc.record({
          type: fc.constantFrom('output_text', 'refusal'),
          text: word,
          refusal: word,
          annotations: odd,
        }),
      ),
    ),
    summary: fc.oneof(odd, fc.array(fc.record({ text: word }))),
  },
  { requiredKeys: ['type'] },
);
const ended = fc.record(
  {
    status: fc.constantFrom('completed', 'incomplete', 'failed', 'queued'),
    output: fc.oneof(odd, fc.array(item)),
    usage: fc.record({ input_tokens: count, output_tokens: count }),
    error: odd,
    incomplete_details: odd,
  },
  { requiredKeys: [] },
);
const TYPES =
  'output_text.delta reasoning_text.delta reasoning_summary_text.delta refusal.delta function_call_arguments.delta function_call_arguments.done output_item.added output_item.done';
const responsesPayload = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record(
      {
        type: fc.constantFrom(...TYPES.split(' ').map((type) => `response.${type}`)),
        output_index: index,
        item_id: id,
        delta: fc.oneof(word, odd),
        arguments: fc.oneof(word, odd),
        item: fc.oneof(item, odd),
      },
      { requiredKeys: ['type'] },
    ),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constantFrom('response.completed', 'response.incomplete', 'response.failed'),
      response: fc.oneof(ended, odd),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constantFrom('error', 'response.created', 'keepalive'),
      message: word,
    }),
  },
);

/** Where bytes are damaged, and what becomes of them. */
const damage = fc.array(fc.tuple(fc.nat(4000), fc.constantFrom('drop', 'flip', 'repeat')), {
  maxLength: 3,
});

function damaged(text: string, wounds: readonly (readonly [number, string])[]): Buffer {
  let bytes = Buffer.from(text);
  for (const [place, kind] of wounds) {
    const at = place % bytes.length;
    const piece =
      { drop: [], flip: [(bytes[at] ?? 0) ^ 1], repeat: [...bytes.subarray(at, at + 40)] }[kind] ??
      [];
    bytes = Buffer.concat([
      bytes.subarray(0, at),
      Buffer.from(piece),
      bytes.subarray(at + (kind === 'repeat' ? 0 : 1)),
    ]);
  }
  return bytes;
}

/** What holds of any answer, however hostile. */
function expectSound({ events, failure }: Decoded): void {
  const calls = events.filter((event) => event.type === 'tool-call');
  expect(new Set(calls.map((call) => call.toolCallId)).size).toBe(calls.length);
  for (const call of calls)
    expect([typeof call.arguments, call.name === '', call.toolCallId === '']).toEqual([
      'string',
      false,
      false,
    ]);
  const ends = events.flatMap((event, at) => (event.type === 'finish' ? [at] : []));
  expect(ends).toEqual(failure === undefined ? [events.length - 1] : []);
  expect(events.filter((event) => 'text' in event && event.text === '')).toEqual([]);
}

/** Ids that had to be made are random. */
function comparable({ events, failure }: Decoded): string {
  const made: string[] = [];
  return JSON.stringify([joined(events), failure?.message]).replaceAll(
    /call_[0-9a-f]{32}/g,
    (found) => {
      if (!made.includes(found)) made.push(found);
      return `made-${made.indexOf(found)}`;
    },
  );
}

describe.each([
  ['chat', chatPayload],
  ['responses', responsesPayload],
] as const)('a hostile provider over %s', (api, payload) => {
  const payloads: fc.Arbitrary<object[]> = fc.array<object>(payload, { maxLength: 12 });

  it(
    `gives one sound end and sound calls, however its bytes are damaged and cut, ${RUNS} times`,
    () => {
      fc.assert(
        fc.property(
          payloads,
          damage,
          fc.array(fc.nat(50), { maxLength: 30 }),
          (objects, wounds, sizes) => {
            const bytes = damaged(sse(...objects), wounds);
            const reads: Uint8Array[] = [];
            let at = 0;
            for (const size of sizes) reads.push(bytes.subarray(at, (at += size)));
            reads.push(bytes.subarray(at));
            const [whole, cut] = [decode([bytes], api), decode(reads, api)];
            expectSound(whole);
            expect(comparable(cut)).toBe(comparable(whole));
          },
        ),
        { numRuns: RUNS },
      );
    },
    TIMEOUT_MS,
  );

  it('gives the same wherever a whole answer is cut in two', () => {
    const text =
      api === 'chat'
        ? sse(
            chunk({ content: 'Grüße 🚚' }),
            chunk(
              {
                tool_calls: [
                  { index: 0, id: 'a', function: { name: 'look', arguments: '{"a":"é"}' } },
                ],
              },
              'tool_calls',
            ),
          )
        : sse(
            { type: 'response.output_text.delta', output_index: 0, delta: 'Grüße 🚚' },
            {
              type: 'response.output_item.done',
              output_index: 1,
              item: { type: 'function_call', call_id: 'a', name: 'look', arguments: '{"a":"é"}' },
            },
            { type: 'response.completed', response: { status: 'completed', output: [] } },
          );
    const bytes = Buffer.from(text);
    const whole = decode([bytes], api);
    expect(whole.events.at(-1)).toMatchObject({ type: 'finish', finishReason: 'tool_calls' });
    for (let at = 0; at <= bytes.length; at += 1)
      expect(comparable(decode([bytes.subarray(0, at), bytes.subarray(at)], api))).toBe(
        comparable(whole),
      );
  });
});
