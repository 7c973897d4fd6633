import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ModelEvent, ModelFinishReason } from '@toolloop/protocol';
import { existsSync, readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { anthropic } from '../src/index.js';
import { decode, textOf, type Decoded } from './decode.js';
import { ask } from './requests.js';

/** Streams of real providers. They lie beside the project and are no part of it. */
const FOLDER = join(process.cwd(), '../shared/wire-fixtures');

const MODES = (
  'whole bytes random utf8split events crlf cr comments bom nospace dupid nodone crlf+utf8split crlf+bytes cr+random cr+bytes ' +
  'comments+crlf+random bom+bytes bom+nospace+utf8split nospace+comments+cr'
).split(' ');

interface Fixture {
  readonly id: string;
  readonly api: string;
  readonly file: string;
  readonly expected: string;
}

interface Expected {
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly { id: string; name: string; arguments: unknown }[];
  readonly finishReason: string;
  /** Counts the cache apart, as the API does. */
  readonly usage: {
    readonly input: number;
    readonly output: number;
    readonly cacheRead: number;
    readonly cacheWrite: number;
  };
  readonly error: object | null;
  readonly executable: readonly string[];
}

interface ReplayServer {
  readonly chunksFor: (text: string, mode: string) => { readonly chunks: readonly Uint8Array[] };
  readonly createReplayServer: () => Server;
}

const REASONS = new Map<string, ModelFinishReason>([
  ['end_turn', 'stop'],
  ['tool_use', 'tool_calls'],
  ['max_tokens', 'length'],
]);

function summaryOf(decoded: Decoded) {
  const { events, failure } = decoded;
  const finish = events.find((event) => event.type === 'finish');
  const usage = events.find((event) => event.type === 'usage')?.usage;
  const calls = events.filter((event) => event.type === 'tool-call');
  return {
    text: textOf(decoded),
    reasoning: events.map((event) => (event.type === 'reasoning-delta' ? event.text : '')).join(''),
    calls: calls.map((call) => [call.toolCallId, call.name, JSON.parse(call.arguments) as unknown]),
    executable:
      finish?.finishReason === 'stop' || finish?.finishReason === 'tool_calls'
        ? calls.map((call) => call.toolCallId)
        : [],
    reason: finish?.finishReason,
    usage: [usage?.inputTokens, usage?.outputTokens],
    hasFailed: failure !== undefined,
  };
}

function wanted({
  text,
  reasoning,
  toolCalls,
  executable,
  finishReason,
  usage,
  error,
}: Expected): ReturnType<typeof summaryOf> {
  return {
    text,
    reasoning,
    calls: toolCalls.map((call) => [call.id, call.name, call.arguments]),
    executable: [...executable],
    reason: REASONS.get(finishReason),
    usage: [usage.input + usage.cacheRead + usage.cacheWrite, usage.output],
    hasFailed: error !== null,
  };
}

const isThere = existsSync(FOLDER);
const replay = isThere
  ? ((await import(pathToFileURL(join(FOLDER, 'replay-server.mjs')).href)) as ReplayServer)
  : undefined;
const fixtures = isThere
  ? (JSON.parse(read('index.json')) as readonly Fixture[]).filter(({ api }) => api === 'messages')
  : [];

function read(file: string): string {
  return readFileSync(join(FOLDER, 'fixtures', file), 'utf8');
}

function expectedOf({ expected: path }: Fixture): Expected {
  return (JSON.parse(read(path)) as { readonly expected: Expected }).expected;
}

const describeIfThere = isThere ? describe : describe.skip;

describeIfThere(
  `recorded messages${isThere ? '' : ' (left out: ../shared/wire-fixtures is not there)'}`,
  () => {
    let server: Server | undefined;
    let baseURL = '';
    beforeAll(async () => {
      server = replay?.createReplayServer();
      await new Promise<void>((resolve) => {
        server?.listen(0, '127.0.0.1', resolve);
      });
      baseURL = `http://127.0.0.1:${(server?.address() as AddressInfo | undefined)?.port}`;
    });
    afterAll(() => {
      server?.closeAllConnections();
      server?.close();
    });

    it('are there', () => {
      expect(fixtures.length).toBeGreaterThan(14);
    });

    for (const fixture of fixtures) {
      it(`${fixture.id} is understood, its bytes cut in ${MODES.length} ways`, () => {
        const expected = wanted(expectedOf(fixture));
        const text = read(fixture.file);
        for (const mode of MODES) {
          const actual = summaryOf(decode(replay?.chunksFor(text, mode).chunks ?? []));
          expect({ mode, ...actual }).toEqual({ mode, ...expected });
        }
      });

      it.each(['whole', 'random+crlf'])(
        `${fixture.id} is understood over HTTP, through the SDK, sent %s`,
        async (mode) => {
          const model = anthropic(`${fixture.id}@${mode}`, { baseURL });
          const events: ModelEvent[] = [];
          for await (const event of model.stream(ask('Hi'), new AbortController().signal))
            events.push(event);
          expect(summaryOf({ events })).toEqual(wanted(expectedOf(fixture)));
        },
      );
    }
  },
);
