import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { decodeMessages } from '@toolloop/anthropic';
import { ModelError } from '@toolloop/core';
import { assemble, type ModelAnswer, type ModelEvent } from '@toolloop/protocol';
import { decodeResponses } from '@toolloop/openai';
import * as fc from 'fast-check';
import { cases } from '../cases.js';

const RUNS = cases(1_000);

type Decode = (body: AsyncIterable<Uint8Array>) => AsyncIterable<ModelEvent>;

/**
 * The payloads of the streams that are kept as golden files, of the APIs that say what belongs
 * together.
 */
const RESPONSES = payloadsIn('openai', 'responses-');
const MESSAGES = payloadsIn('anthropic', '');

function payloadsIn(library: string, prefix: string): readonly (readonly object[])[] {
  const folder = join(process.cwd(), 'libs', library, 'test/golden');
  const names = readdirSync(folder).filter(
    (name) => name.startsWith(prefix) && name.endsWith('.chunks.txt'),
  );
  const texts = names.map((name) =>
    readFileSync(join(folder, name), 'utf8').matchAll(/^data: (\{.*\})\r?$/gm),
  );
  return texts
    .map((lines) => Array.from(lines, ([, json = '']) => JSON.parse(json) as object))
    .filter(({ length }) => length > 0);
}

const odd = fc.constantFrom(null, '', {}, [], 0, -1, 7, true, 'x', '{}', [null], '__proto__');
const mutation = fc.record({
  kind: fc.constantFrom(
    'leave out',
    'repeat',
    'swap',
    'change',
    'change',
    'change',
    'take away',
    'take away',
  ),
  at: fc.nat(1_000),
  path: fc.array(fc.nat(20), { minLength: 1, maxLength: 6 }),
  value: odd,
});

type Mutation = typeof mutation extends fc.Arbitrary<infer Value> ? Value : never;

function mutated(
  payloads: readonly object[],
  { kind, at, path, value }: Mutation,
): readonly object[] {
  const index = at % Math.max(1, payloads.length);
  const [before, payload, after] = [
    payloads.slice(0, index),
    payloads[index],
    payloads.slice(index + 1),
  ];
  if (payload === undefined) return payloads;
  if (kind === 'leave out') return [...before, ...after];
  if (kind === 'repeat') return [...before, payload, payload, ...after];
  if (kind === 'swap') return [...before, ...after.slice(0, 1), payload, ...after.slice(1)];
  return [...before, changed(payload, path, kind === 'change' ? value : undefined), ...after];
}

/** A value somewhere in the payload is another; undefined takes it away. */
function changed(payload: object, path: readonly number[], value: unknown): object {
  const copy = structuredClone(payload);
  let [part, key] = [copy as Record<string, unknown>, ''];
  for (const step of path) {
    const keys = Object.keys(part);
    const next = part[key];
    if (key !== '' && (typeof next !== 'object' || next === null)) break;
    if (key !== '') part = next as Record<string, unknown>;
    const below = key === '' ? keys : Object.keys(part);
    key = below[step % Math.max(1, below.length)] ?? '';
    if (key === '') return copy;
  }
  part[key] = value;
  return copy;
}

async function* inOneRead(
  payloads: readonly object[],
): AsyncGenerator<Uint8Array, void, undefined> {
  yield await Promise.resolve(
    Buffer.from(payloads.map((payload) => `data: ${JSON.stringify(payload)}\n\n`).join('')),
  );
}

/** Undefined where the answer is an error. */
async function answerTo(
  decode: Decode,
  payloads: readonly object[],
): Promise<ModelAnswer | undefined> {
  try {
    return await assemble(decode(inOneRead(payloads)));
  } catch (error) {
    if (error instanceof ModelError) return undefined;
    throw error;
  }
}

/** The calls a loop would run. */
function runnable(answer: ModelAnswer | undefined): ModelAnswer['toolCalls'] {
  return answer?.finishReason === 'stop' || answer?.finishReason === 'tool_calls'
    ? answer.toolCalls
    : [];
}

describe.each([
  ['responses', RESPONSES, decodeResponses],
  ['messages', MESSAGES, decodeMessages],
] as const)('a stream of %s in which something is odd', (_api, streams, decode) => {
  it(
    `has no call that it would not have (${RUNS} of them)`,
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.constantFrom(...streams), mutation, async (payloads, change) => {
          const most = (await answerTo(decode, payloads))?.toolCalls.length ?? Infinity;
          const calls = runnable(await answerTo(decode, mutated(payloads, change)));
          expect(calls.length).toBeLessThanOrEqual(most);
          expect(calls.every(({ name, toolCallId }) => name !== '' && toolCallId !== '')).toBe(
            true,
          );
        }),
        { numRuns: RUNS },
      );
    },
    60_000 + RUNS * 5,
  );
});
