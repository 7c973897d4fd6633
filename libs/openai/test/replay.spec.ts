import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { assemble, NO_USAGE } from '@toolloop/protocol';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openai } from '../src/index.js';
import { ask } from '../../wire/test/requests.js';

/**
 * Streams of real providers, and a server that plays them. They lie beside the project and are no
 * part of it.
 */
const FOLDER = join(process.cwd(), '../shared/wire-fixtures');

interface ReplayModule {
  createReplayServer(): Server;
}

interface Expected {
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly { readonly name: string }[];
  readonly usage: { readonly input: number; readonly output: number } | null;
}

/**
 * Bytes are cut in every way elsewhere; here it is the way through the SDK and the socket that
 * counts.
 */
const FIXTURES = [
  ['chat', 'mistral/chat-mistral-small-latest-tool-2'],
  ['chat', 'openai/chat-gpt-5-parallel'],
  ['chat', 'deepseek/chat-deepseek-v4-flash-tool-reasoning'],
  ['chat', 'cerebras/chat-zai-glm-4-7-tool-reasoning-2'],
  ['responses', 'openai/responses-gpt-4-1-parallel'],
  ['responses', 'openai/responses-gpt-5-1-codex-max-tool-reasoning'],
  ['responses', 'openai/responses-gpt-5-mini-2025-08-07-mcp-call-mcp-list-tools'],
  ['responses', 'openrouter/responses-gpt-oss-20b-reasoning'],
] as const;

const MODES = ['whole', 'random', 'crlf+utf8split', 'events', 'comments+bom', 'nodone'];

const isThere = existsSync(FOLDER);
const describeIfThere = isThere ? describe : describe.skip;

describeIfThere(
  `over HTTP and the SDK${isThere ? '' : ' (left out: ../shared/wire-fixtures is not there)'}`,
  () => {
    let server: Server;
    let baseURL = '';

    beforeAll(async () => {
      const replay = (await import(
        pathToFileURL(join(FOLDER, 'replay-server.mjs')).href
      )) as ReplayModule;
      server = replay.createReplayServer().listen(0, '127.0.0.1');
      await once(server, 'listening');
      baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    });

    afterAll(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    });

    it.each(FIXTURES)(
      '%s, %s: it arrives complete, however the server writes it',
      async (api, id) => {
        const { expected } = JSON.parse(
          readFileSync(join(FOLDER, `fixtures/${id}.expected.json`), 'utf8'),
        ) as { readonly expected: Expected };
        for (const mode of MODES) {
          const subject = openai(`${id}@${mode}`, { api, baseURL });
          const answer = await assemble(subject.stream(ask('Hi'), new AbortController().signal));
          expect({
            mode,
            text: answer.text,
            reasoning: answer.reasoning,
            names: answer.toolCalls.map(({ name }) => name),
          }).toEqual({
            mode,
            text: expected.text,
            reasoning: expected.reasoning,
            names: expected.toolCalls.map(({ name }) => name),
          });
          expect(
            answer.usage === NO_USAGE
              ? null
              : { input: answer.usage.inputTokens, output: answer.usage.outputTokens },
          ).toEqual(
            expected.usage && { input: expected.usage.input, output: expected.usage.output },
          );
        }
      },
    );

    it.each([
      ['chat', 'openai/chat-gpt-5-parallel'],
      ['responses', 'openai/responses-gpt-4-1-parallel'],
    ] as const)(
      '%s, %s: it runs no call when it is cut, and fails when the connection breaks',
      async (api, id) => {
        const answerIn = (mode: string) =>
          assemble(
            openai(`${id}@${mode}`, { api, baseURL }).stream(
              ask('Hi'),
              new AbortController().signal,
            ),
          );
        expect((await answerIn('cut')).finishReason).toBe('incomplete');
        await expect(answerIn('destroy')).rejects.toMatchObject({
          name: 'ModelError',
          isRetryable: true,
        });
      },
    );
  },
);
