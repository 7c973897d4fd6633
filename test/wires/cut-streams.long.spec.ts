import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { decodeMessages } from '@toolloop/anthropic';
import { assemble, type ModelAnswer, type ModelEvent } from '@toolloop/protocol';
import { decodeChatCompletions, decodeResponses } from '@toolloop/openai';
import * as fc from 'fast-check';
import { cases } from '../cases.js';

type Decode = (body: AsyncIterable<Uint8Array>) => AsyncIterable<ModelEvent>;

/** The streams that are kept as golden files, of each API. */
const STREAMS = [
  ...streamsIn('openai', (name) => !name.startsWith('responses-'), decodeChatCompletions),
  ...streamsIn('openai', (name) => name.startsWith('responses-'), decodeResponses),
  ...streamsIn('anthropic', () => true, decodeMessages),
];

function streamsIn(
  library: string,
  isOf: (name: string) => boolean,
  decode: Decode,
): readonly (readonly [string, Buffer, Decode])[] {
  const folder = join(process.cwd(), 'libs', library, 'test/golden');
  const names = readdirSync(folder).filter((name) => name.endsWith('.chunks.txt') && isOf(name));
  return names.map((name) => [
    name,
    Buffer.from(readFileSync(join(folder, name), 'utf8').replaceAll('=== read ===\n', '')),
    decode,
  ]);
}

async function* inReads(reads: readonly Uint8Array[]): AsyncGenerator<Uint8Array, void, undefined> {
  for (const read of reads) yield await Promise.resolve(read);
}

/** Ids that had to be made are random. */
async function answerTo(
  decode: Decode,
  reads: readonly Uint8Array[],
): Promise<ModelAnswer | 'failed'> {
  try {
    const answer = await assemble(decode(inReads(reads)));
    return JSON.parse(
      JSON.stringify(answer).replaceAll(/(call|toolu)_[0-9a-f]{32}/g, 'made'),
    ) as ModelAnswer;
  } catch {
    return 'failed';
  }
}

/** The calls a loop would run. */
function runnable(answer: ModelAnswer | 'failed'): ModelAnswer['toolCalls'] {
  return answer !== 'failed' &&
    (answer.finishReason === 'stop' || answer.finishReason === 'tool_calls')
    ? answer.toolCalls
    : [];
}

describe.each(STREAMS)('the stream %s', (_name, bytes, decode) => {
  it('means the same however its bytes are cut', async () => {
    const whole = await answerTo(decode, [bytes]);
    const sizes = fc.array(fc.nat(40), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(sizes, async (lengths) => {
        const reads: Uint8Array[] = [];
        let at = 0;
        for (const length of lengths) reads.push(bytes.subarray(at, (at += length)));
        expect(await answerTo(decode, [...reads, bytes.subarray(at)])).toEqual(whole);
      }),
      { numRuns: cases(20) },
    );
  });

  it('runs no half call wherever it ends', async () => {
    const whole = await answerTo(decode, [bytes]);
    const known = runnable(whole).map(({ name, arguments: args }) => [name, args]);
    for (let end = 0; end < bytes.length; end += 1) {
      const calls = runnable(await answerTo(decode, [bytes.subarray(0, end)]));
      expect(calls.length === 0 || calls.length === known.length).toBe(true);
      expect(known).toEqual(
        expect.arrayContaining(calls.map(({ name, arguments: args }) => [name, args])),
      );
    }
  });
});

describe.each([
  ['decodeChatCompletions', decodeChatCompletions, '{"choices":[{"delta":{"content":"Hi"}}]}'],
  [
    'decodeResponses',
    decodeResponses,
    '{"type":"response.output_text.delta","output_index":0,"delta":"Hi"}',
  ],
  [
    'decodeMessages',
    decodeMessages,
    '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}',
  ],
])('%s', (_name, decode, payload) => {
  const bytes = Buffer.from(`data: ${payload}\n\n`);

  it.each([
    ['a web stream', () => new Response(bytes).body ?? new ReadableStream<Uint8Array>()],
    ['a Node stream', () => Readable.from([bytes])],
    ['a generator', () => inReads([bytes])],
  ])('reads %s', async (_kind, body) => {
    expect(await assemble(decode(body()))).toMatchObject({
      text: 'Hi',
      finishReason: 'incomplete',
    });
  });

  it('reads no further than it is read, and gives up what is left when its reader leaves', async () => {
    let [reads, hasClosed] = [0, false];
    async function* endless(): AsyncGenerator<Uint8Array, void, undefined> {
      try {
        for (; ; reads += 1) yield await Promise.resolve(bytes);
      } finally {
        hasClosed = true;
      }
    }
    for await (const event of decode(endless()))
      if (event.type === 'text-delta' && reads >= 2) break;
    await Promise.resolve();
    expect([reads, hasClosed]).toEqual([2, true]);
  });
});
