import { describe, expect, it } from '@jest/globals';
import type { ModelEvent, ModelFinishReason } from '@toolloop/protocol';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { decode, textOf, type Decoded } from './decode.js';

/** Streams of real providers. They lie beside the project and are no part of it. */
const FOLDER = join(process.cwd(), '../shared/wire-fixtures');

const MODES = (
  'whole bytes random utf8split events crlf cr comments bom nospace dupid nodone crlf+utf8split crlf+bytes cr+random cr+bytes ' +
  'comments+crlf+random bom+bytes bom+nospace+utf8split nospace+comments+cr'
).split(' ');

/** What is left out, and why. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  'openai/chat-gpt-3-5-turbo-text': 'its request asked for n = 3 answers, ours ask for one',
};

/** What the folder calls an API, and what we do. */
const APIS = { 'chat.completions': 'chat', responses: 'responses' } as const;

/** The fewest fixtures of each that there have to be. */
const FEWEST = { 'chat.completions': 70, responses: 29 } as const;

interface Fixture {
  readonly id: string;
  readonly api: keyof typeof APIS;
  readonly file: string;
  readonly expected: string;
}

interface Expected {
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly {
    id: string;
    name: string;
    arguments: unknown;
    argumentsRaw: string;
    argumentsValid: boolean;
  }[];
  readonly finishReason: string | null;
  readonly usage: { readonly input: number; readonly output: number } | null;
  readonly refusal?: string | null;
  readonly error: object | null;
  readonly executable: readonly string[];
}

type ChunksFor = (text: string, mode: string) => { readonly chunks: readonly Uint8Array[] };

function summaryOf(decoded: Decoded) {
  const { events, failure } = decoded;
  const finish = events.find((event) => event.type === 'finish');
  const usage = events.find((event) => event.type === 'usage')?.usage;
  const calls = events.filter((event) => event.type === 'tool-call');
  return {
    text: textOf(decoded),
    reasoning: events.map((event) => (event.type === 'reasoning-delta' ? event.text : '')).join(''),
    calls:
      failure === undefined
        ? calls.map((call) => [call.toolCallId, call.name, valueOf(call.arguments)])
        : 'error',
    executable:
      finish?.finishReason === 'stop' || finish?.finishReason === 'tool_calls'
        ? calls.filter(isObject).map((call) => call.toolCallId)
        : [],
    reason: finish?.finishReason,
    usage: usage === undefined ? undefined : [usage.inputTokens, usage.outputTokens],
    hasFailed: failure !== undefined,
  };
}

function wanted(expected: Expected): ReturnType<typeof summaryOf> {
  const hasFailed = expected.error !== null;
  return {
    text: expected.text,
    reasoning: expected.reasoning,
    calls: hasFailed
      ? 'error'
      : expected.toolCalls.map((call) => [call.id, call.name, valueOf(call.argumentsRaw)]),
    executable: [...expected.executable],
    reason: hasFailed ? undefined : reasonOf(expected),
    usage:
      hasFailed || expected.usage === null
        ? undefined
        : [expected.usage.input, expected.usage.output],
    hasFailed,
  };
}

/** The expected files keep the provider's own word. */
function reasonOf({ finishReason, toolCalls, refusal }: Expected): ModelFinishReason {
  if (finishReason === null) return 'incomplete';
  if (finishReason === 'length' || finishReason === 'content_filter') return finishReason;
  if (finishReason === 'incomplete:max_output_tokens') return 'length';
  if (refusal) return 'content_filter';
  return toolCalls.length > 0 ? 'tool_calls' : 'stop';
}

function valueOf(text: string): unknown {
  try {
    return { value: JSON.parse(text === '' ? '{}' : text) as unknown };
  } catch {
    return { malformed: text };
  }
}

function isObject(call: Extract<ModelEvent, { type: 'tool-call' }>): boolean {
  const { value } = valueOf(call.arguments) as { value?: unknown };
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const isThere = existsSync(FOLDER);
const chunksFor = isThere ? await loadChunksFor() : undefined;
const fixtures = isThere
  ? (JSON.parse(read('index.json')) as readonly Fixture[]).filter(isOurs)
  : [];

async function loadChunksFor(): Promise<ChunksFor> {
  const server = (await import(pathToFileURL(join(FOLDER, 'replay-server.mjs')).href)) as {
    readonly chunksFor: ChunksFor;
  };
  return server.chunksFor;
}

function read(file: string): string {
  return readFileSync(join(FOLDER, 'fixtures', file), 'utf8');
}

function isOurs({ id, api }: Fixture): boolean {
  return api in APIS && !(id in LEFT_OUT);
}

const describeIfThere = isThere ? describe : describe.skip;

describeIfThere(
  `recorded answers${isThere ? '' : ' (left out: ../shared/wire-fixtures is not there)'}`,
  () => {
    it.each(['chat.completions', 'responses'] as const)('are there in number for %s', (api) => {
      expect(fixtures.filter((fixture) => fixture.api === api).length).toBeGreaterThanOrEqual(
        FEWEST[api],
      );
    });

    it('report their cost wherever the provider does', () => {
      const priced = fixtures.filter(({ file }) =>
        /"cost": ?[0-9]|"cost_in_usd_ticks"/.test(read(file)),
      );
      expect(priced.length).toBeGreaterThanOrEqual(20);
      for (const { id, api, file } of priced) {
        const { events, failure } = decode(
          [read(file)],
          api === 'responses' ? 'responses' : 'chat',
        );
        const usage = events.find((event) => event.type === 'usage')?.usage;
        expect({
          id,
          isKnown: failure !== undefined || typeof usage?.costUsd === 'number',
        }).toEqual({ id, isKnown: true });
      }
    });

    for (const { id, api, file, expected: path } of fixtures) {
      it(`${id} is understood, its bytes cut in ${MODES.length} ways`, () => {
        const { expected } = JSON.parse(read(path)) as { readonly expected: Expected };
        const text = read(file);
        for (const mode of MODES) {
          const actual = summaryOf(decode(chunksFor?.(text, mode).chunks ?? [], APIS[api]));
          expect({ mode, ...actual }).toEqual({ mode, ...wanted(expected) });
        }
      });
    }
  },
);
