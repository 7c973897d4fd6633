import { afterAll, describe, expect, it } from '@jest/globals';
import { isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import { GatedModel } from './gated-model.js';
import { ask, closeApps, type Served, serveApp, until } from './served-app.js';

afterAll(closeApps);

/** A chat protocol whose clients ask once more for the answer that is under way. */
interface ChatAgain {
  readonly path: string;
  readonly again: string;
  /** The body that asks in a thread, and says what else it says. */
  asks(thread: string, more: JsonObject): JsonObject;
  /** The body that asks again, of a client that has half of the answer of a run. */
  asksAgain(thread: string, runId: string): JsonObject;
  /** The texts of the answer as the client has it behind a stream. */
  textIn(chunks: readonly JsonObject[]): string;
}

const MESSAGES = [{ id: 'u1', role: 'user', content: 'Go on' }];
const ASKED = { id: 'u1', role: 'user', parts: [{ type: 'text', text: 'Go on' }] };

const CHATS: readonly (readonly [string, ChatAgain])[] = [
  [
    'AG-UI',
    {
      path: '/ai/agui',
      again: '/ai/agui/connect',
      asks: (threadId, forwardedProps) => ({
        threadId,
        runId: 'r1',
        messages: MESSAGES,
        forwardedProps,
      }),
      asksAgain: (threadId, runId) => ({
        threadId,
        runId: 'r2',
        messages: [...MESSAGES, { id: `${runId}-2`, role: 'assistant', content: 'half of ' }],
      }),
      textIn: (chunks) => {
        const before = chunks.flatMap(({ type, messages }) =>
          type === 'MESSAGES_SNAPSHOT' ? messages : [],
        );
        const deltas = chunks.flatMap(({ type, delta }) =>
          type === 'TEXT_MESSAGE_CONTENT' ? delta : [],
        );
        return JSON.stringify([before, deltas]);
      },
    },
  ],
  [
    'the assistant transport',
    {
      path: '/ai/assistant',
      again: '/ai/assistant/resume',
      asks: (threadId, more) => ({
        threadId,
        state: { messages: [] },
        commands: [{ type: 'add-message', message: ASKED }],
        ...more,
      }),
      asksAgain: (threadId, runId) => ({
        threadId,
        state: {
          messages: [
            ASKED,
            { id: runId, role: 'assistant', parts: [{ type: 'text', text: 'half of ' }] },
          ],
        },
        commands: [],
      }),
      textIn: (chunks) => {
        const operations = chunks.flatMap(({ operations: made }) =>
          Array.isArray(made) ? made.filter(isJsonObject) : [],
        );
        const [first, ...rest] = operations.filter(({ path }) =>
          JSON.stringify(path)?.includes('messages'),
        );
        const before = Array.isArray(first?.['value']) ? first['value'].slice(0, -1) : [];
        const texts = rest.flatMap(({ value }) =>
          isJsonObject(value) ? (value['text'] ?? []) : value,
        );
        return JSON.stringify([
          before,
          texts.filter((text) => typeof text === 'string' && text !== 'stop'),
        ]);
      },
    },
  ],
];

/** The chunks of a stream that has ended. */
async function chunksOf(response: Response): Promise<readonly JsonObject[]> {
  const lines = (await response.text()).split('\n').filter((line) => line.startsWith('data: {'));
  return lines
    .map((line) => JSON.parse(line.slice('data: '.length)) as JsonValue)
    .filter(isJsonObject);
}

/** Asks, and leaves once the first piece has come. */
async function leave(
  served: Served,
  chat: ChatAgain,
  thread: string,
  more: JsonObject,
): Promise<void> {
  const response = await ask(served, 'alice', chat.asks(thread, more), chat.path);
  const reader = response.body?.getReader();
  for (let text = ''; !text.includes('a piece');)
    text += new TextDecoder().decode((await reader?.read())?.value);
  await reader?.cancel();
}

async function runIdOf(served: Served): Promise<string> {
  const response = await fetch(`${served.url}/runs?status=running`, {
    headers: { authorization: 'Bearer alice' },
  });
  const [run] = (await response.json()) as readonly { readonly runId: string }[];
  return run?.runId ?? '';
}

describe.each(CHATS)('a client of %s that has lost its stream', (_, chat) => {
  it('has all of the answer in place of what it has of it, and only in its own threads', async () => {
    const model = new GatedModel(['a piece ', 'and more']);
    const served = await serveApp({ model });
    await leave(served, chat, 'lost', { resumable: true });
    const body = chat.asksAgain('lost', await runIdOf(served));
    expect((await ask(served, 'carl', body, chat.again)).status).toBe(204);
    expect((await ask(served, 'alice', { ...body, threadId: 'another' }, chat.again)).status).toBe(
      204,
    );
    const stream = await ask(served, 'alice', body, chat.again);
    model.open();
    const before = chat.path === '/ai/agui' ? MESSAGES : [ASKED];
    expect(chat.textIn(await chunksOf(stream))).toBe(
      JSON.stringify([before, ['a piece ', 'and more']]),
    );
    expect(model.pulled).toBe(2);
    expect((await ask(served, 'alice', body, chat.again)).status).toBe(204);
  });

  it('ends its run where it has not said that it would read on', async () => {
    const model = new GatedModel(['a piece ']);
    const served = await serveApp({ model });
    await leave(served, chat, 'left', {});
    await until(() => model.aborted === 1);
    expect((await ask(served, 'alice', chat.asksAgain('left', 'none'), chat.again)).status).toBe(
      204,
    );
  });
});

describe('a page of the assistant transport that is loaded again', () => {
  it('has the state with which it asked, of its own threads alone, and all of the answer behind that', async () => {
    const model = new GatedModel(['a piece ', 'and more']);
    const served = await serveApp({ model });
    const state = { theme: 'dark', messages: [{ id: 'a1', role: 'assistant', parts: [] }] };
    const asks = {
      threadId: 'kept',
      resumable: true,
      state,
      commands: [{ type: 'add-message', message: ASKED }],
    };
    const response = await ask(served, 'alice', asks, '/ai/assistant');
    await until(() => model.pulled === 2);
    await response.body?.cancel();
    const path = '/ai/assistant/resume-state';
    expect((await ask(served, 'carl', { threadId: 'kept' }, path)).status).toBe(204);
    expect((await ask(served, 'alice', { threadId: 'another' }, path)).status).toBe(204);
    expect((await ask(served, 'alice', { threadId: 7 }, path)).status).toBe(204);
    const kept = { ...state, messages: [...state.messages, ASKED] };
    const shown = await ask(served, 'alice', { threadId: 'kept' }, path);
    const { runId } = (await shown.clone().json()) as { readonly runId: string };
    expect([shown.status, await shown.json()]).toEqual([
      200,
      { runId: await runIdOf(served), state: kept },
    ]);
    const stream = await ask(
      served,
      'alice',
      { threadId: 'kept', runId, commands: [] },
      '/ai/assistant/resume',
    );
    model.open();
    const [, [, transport]] = CHATS as readonly [unknown, readonly [string, ChatAgain]];
    expect(transport.textIn(await chunksOf(stream))).toBe(
      JSON.stringify([kept.messages, ['a piece ', 'and more']]),
    );
    expect((await ask(served, 'alice', { threadId: 'kept' }, path)).status).toBe(204);
  });
});
