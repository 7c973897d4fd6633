import { existsSync, readFileSync } from 'node:fs';
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { anthropic } from '@toolloop/anthropic';
import {
  type LanguageModel,
  type LoopResult,
  policies,
  RunError,
  tool,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { openai } from '@toolloop/openai';

/**
 * Streams of real providers, and a server that plays them. They lie beside the project and are no
 * part of it.
 */
const FOLDER = join(process.cwd(), '../shared/wire-fixtures');
const MODES = ['whole', 'random+crlf', 'utf8split+comments'];

interface ReplayModule {
  createReplayServer(): Server;
}

interface Fixture {
  readonly id: string;
  readonly api: 'chat.completions' | 'responses' | 'messages';
  readonly expected: string;
  readonly quirks: readonly string[];
}

interface Expected {
  readonly text: string;
  readonly toolCalls: readonly {
    readonly id: string | null;
    readonly name: string;
    readonly arguments: unknown;
  }[];
  readonly executable: readonly string[];
  /** In the provider's words. */
  readonly finishReason: string | null;
  readonly error: unknown;
  readonly complete: boolean;
  readonly refusal?: string | null;
}

/** What a run has to come to. */
type Ending = Pick<LoopResult, 'finishReason' | 'text'> & { readonly error?: unknown };

/** The providers' words for an end that is no other step; what is not among them fails the spec. */
const ENDS: Readonly<Record<string, LoopResult['finishReason']>> = {
  stop: 'stop',
  eos: 'stop',
  eos_token: 'stop',
  end_turn: 'stop',
  completed: 'stop',
  length: 'length',
  max_tokens: 'length',
  'incomplete:max_output_tokens': 'length',
  content_filter: 'content_filter',
};

/** What a model says once it has its results. */
const LAST_WORDS: Readonly<Record<Fixture['api'], string>> = {
  'chat.completions': 'openai/chat-gpt-5-text',
  responses: 'open-responses/responses-gemma-7b-it-text',
  messages: 'anthropic/messages-claude-3-5-haiku-20241022-text',
};

const isThere = existsSync(FOLDER);
const describeIfThere = isThere ? describe : describe.skip;
const fixtures = isThere
  ? (read('index.json') as readonly Fixture[]).filter(
      ({ quirks }) => !quirks.includes('request_n_gt1'),
    )
  : [];

function read(path: string): unknown {
  return JSON.parse(readFileSync(join(FOLDER, 'fixtures', path), 'utf8'));
}

function expectedOf(path: string): Expected {
  return (read(path) as { readonly expected: Expected }).expected;
}

/**
 * After calls, and be it that none of them could run; and after an answer in which there is nothing
 * that a loop knows.
 */
function isAskedAgain({ complete, toolCalls, text, refusal }: Expected): boolean {
  return complete && (toolCalls.length > 0 || (text === '' && !refusal));
}

function endingOf(expected: Expected, lastWords: string): Ending {
  const { text, error, finishReason, refusal } = expected;
  if (error !== null) return { finishReason: 'error', text, error: { code: 'model_error' } };
  if (finishReason === null)
    return { finishReason: 'error', text, error: { code: 'model_incomplete' } };
  if (isAskedAgain(expected)) return { finishReason: 'stop', text: lastWords };
  const end = refusal ? 'content_filter' : ENDS[finishReason];
  if (!end) throw new Error(`Say what the loop makes of "${finishReason}".`);
  return { finishReason: end, text };
}

describeIfThere(
  `the loop over recorded streams${isThere ? '' : ' (left out: ../shared/wire-fixtures is not there)'}`,
  () => {
    let server: Server;
    let origin = '';
    beforeAll(async () => {
      const replay = (await import(
        pathToFileURL(join(FOLDER, 'replay-server.mjs')).href
      )) as ReplayModule;
      server = replay.createReplayServer().listen(0, '127.0.0.1');
      await once(server, 'listening');
      origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    });
    afterAll(() => {
      server.closeAllConnections();
      server.close();
    });

    /** The provider of a recording, through its SDK. */
    function modelOf(api: Fixture['api'], id: string): LanguageModel {
      if (api === 'messages') return anthropic(id, { baseURL: origin });
      return openai(id, {
        api: api === 'responses' ? 'responses' : 'chat',
        baseURL: `${origin}/v1`,
      });
    }

    /**
     * A run whose first answer is the recording, in an application that has every tool the
     * recording names.
     */
    async function run(
      { api, id }: Fixture,
      expected: Expected,
      mode: string,
    ): Promise<{ result: LoopResult; executed: unknown[] }> {
      const executed: unknown[] = [];
      const tools = [...new Set(expected.toolCalls.map(({ name }) => name))].map((name) =>
        tool({
          id: name,
          description: `What ${name} does.`,
          effect: 'read_only',
          reveal: 'all',
          input: { type: 'object', additionalProperties: true },
          execute: (args: unknown) => void executed.push([name, args]),
        }),
      );
      const module = await Test.createTestingModule({
        imports: [
          ToolLoopModule.forRoot({
            model: modelOf(api, `${id}@${mode}`),
            tools,
            policy: policies.allowAll,
          }),
        ],
      }).compile();
      module.useLogger(false);
      await module.init();
      const [first, last] = [modelOf(api, `${id}@${mode}`), modelOf(api, LAST_WORDS[api])];
      const prepareStep = ({ step }: { readonly step: number }) => ({
        model: step === 1 ? first : last,
      });
      const running = module.get(ToolLoopService).run({
        prompt: 'Go on.',
        actor: 'alice',
        tenant: 'acme',
        prepareStep,
        limits: { steps: 2 },
      });
      const result = await running.catch((error: unknown) => (error as RunError).result);
      await module.close();
      return { result, executed };
    }

    it.each(fixtures.map((fixture) => [fixture.id, fixture] as const))(
      '%s runs what may run of it, and nothing else',
      async (id, fixture) => {
        const expected = expectedOf(fixture.expected);
        const wanted = expected.toolCalls.filter(
          (call) => call.id === null || expected.executable.includes(call.id),
        );
        const mode = MODES[id.length % MODES.length] ?? 'whole';
        const { result, executed } = await run(fixture, expected, mode);
        expect(executed).toEqual(
          expect.arrayContaining(wanted.map(({ name, arguments: args }) => [name, args])),
        );
        expect(executed).toHaveLength(wanted.length);
        const last = expectedOf(`${LAST_WORDS[fixture.api]}.expected.json`).text;
        expect(result).toMatchObject(endingOf(expected, last));
        const said = result.messages.flatMap(({ role, content }) =>
          role === 'assistant' && content !== '' ? [content] : [],
        );
        expect(said).toEqual(
          [expected.text, ...(isAskedAgain(expected) ? [last] : [])].filter((text) => text !== ''),
        );
      },
    );
  },
);
