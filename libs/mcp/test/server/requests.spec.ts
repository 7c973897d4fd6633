// The low-level Server of the SDK, which @toolloop/mcp uses as well.
/* oxlint-disable typescript/no-deprecated -- see above */
import { afterEach, describe, expect, it } from '@jest/globals';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import { Injectable } from '@nestjs/common';
import { LlmTool, ToolContext, type ToolCallContext, ToolProvider } from '@toolloop/core';
import { clientRoots } from '@toolloop/mcp';
import type { JsonValue } from '@toolloop/protocol';
import { connect as openSocket, type Socket } from 'node:net';
import { Witness } from './notes.js';
import { closeAll, post, serve, type Served } from './served-notes.js';

afterEach(closeAll);

const REVISION = '2026-07-28';
const ENVELOPE = {
  'io.modelcontextprotocol/protocolVersion': REVISION,
  'io.modelcontextprotocol/clientInfo': { name: 'spec', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

const NAME = 'mcp-name';
const METHOD = 'mcp-method';
const VERSION = 'mcp-protocol-version';

interface Message {
  readonly method?: unknown;
  readonly id?: unknown;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly meta?: unknown;
  /** Members beside those of a request. */
  readonly others?: object;
}

function messageOf({
  method = 'tools/call',
  id = 3,
  params = { name: 'notes__count' },
  meta = ENVELOPE,
  others,
}: Message = {}): object {
  return { jsonrpc: '2.0', id, method, params: { ...params, _meta: meta }, ...others };
}

type HeaderValues = Readonly<Record<string, string | undefined>>;

/** The headers that say what the message says, but for those that are given. */
function headersOf(
  { method = 'tools/call', params = { name: 'notes__count' } }: Message = {},
  others: HeaderValues = {},
) {
  const named = params['name'] ?? params['uri'];
  const own = {
    [VERSION]: REVISION,
    [METHOD]: String(method),
    [NAME]: typeof named === 'string' ? named : '',
  };
  const all = Object.entries({ ...own, ...others });
  return Object.fromEntries(
    all.flatMap(([name, value]) => (value === undefined || value === '' ? [] : [[name, value]])),
  );
}

function ask(served: Served, message: Message, others: HeaderValues = {}): Promise<Response> {
  return post(served, messageOf(message), headersOf(message, others));
}

const typeOf = (response: Response): string | null => response.headers.get('content-type');

/** Waits for what another turn is about to bring. */
async function until(holds: () => boolean): Promise<void> {
  for (let turn = 0; turn < 2_000 && !holds(); turn += 1)
    await new Promise((resolve) => setTimeout(resolve, 10));
}

@Injectable()
@ToolProvider({ namespace: 'notes' })
class FolderTools {
  @LlmTool({
    description: 'Asks for the folders of the client.',
    effect: 'read_only',
    reveal: 'all',
  })
  folders(@ToolContext() context: ToolCallContext): Promise<JsonValue> {
    return context.ask(clientRoots({ key: 'roots' }));
  }
}

describe('the answer to a request of 2026', () => {
  it('is JSON where its result is all that is told of it, and names the server', async () => {
    const response = await ask(await serve({ server: { name: 'notes', version: '7' } }), {
      id: 'one',
    });
    expect([response.status, typeOf(response)]).toEqual([200, 'application/json']);
    expect(await response.json()).toEqual({
      jsonrpc: '2.0',
      id: 'one',
      result: {
        resultType: 'complete',
        content: [{ type: 'text', text: '7' }],
        _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'notes', version: '7' } },
      },
    });
  });

  it('is events where its progress is told before', async () => {
    const params = { name: 'notes__work', arguments: { name: 'quick' } };
    const response = await ask(await serve(), {
      params,
      meta: { ...ENVELOPE, progressToken: 'p' },
    });
    expect([response.status, typeOf(response)]).toEqual([200, 'text/event-stream']);
    const [progress = '', result = ''] = (await response.text()).split('\n\n');
    expect(progress).toContain('"notifications/progress"');
    expect(result).toContain('"text":"done"');
  });

  it('has the status of the error where its client lacks a capability, or the server a method', async () => {
    const served = await serve({ providers: [FolderTools] });
    const [lacking, unknown] = [
      await ask(served, { params: { name: 'notes__folders' } }),
      await ask(served, { method: 'prompts/get', params: { name: 'summary' } }),
    ];
    expect([lacking.status, await lacking.json()]).toEqual([
      400,
      expect.objectContaining({ error: expect.objectContaining({ code: -32_021 }) }),
    ]);
    expect([unknown.status, await unknown.json()]).toEqual([
      404,
      expect.objectContaining({ error: expect.objectContaining({ code: -32_601 }) }),
    ]);
  });

  it.each([
    ['nought', 0],
    ['less than nought', -7],
    ['the largest whole number', Number.MAX_SAFE_INTEGER],
    ['an empty text', ''],
    ['a text that looks like a number', '7'],
    ['a name that every object has', '__proto__'],
    ['a text of 50,000 characters', 'x'.repeat(50_000)],
  ])('bears the id of its request, be it %s', async (_, id) => {
    const response = await ask(await serve(), { id });
    expect(await response.json()).toMatchObject({ id, result: { content: [{ text: '7' }] } });
  });

  it('is that of its own request where several of a client bear one id at a time', async () => {
    const served = await serve();
    const read = async (note: string): Promise<string> =>
      (
        await ask(served, { id: 1, params: { name: 'notes__read', arguments: { id: note } } })
      ).text();
    const notes = Array.from({ length: 20 }, (_, index) => `n${index}`);
    const answers = await Promise.all(notes.map(read));
    for (const [index, answer] of answers.entries())
      expect(answer).toContain(`"structuredContent":{"id":"n${index}",`);
  });
});

/** A server of the SDK alone, with one of the same tools. */
const ofSdk = createMcpHandler(
  () => {
    const server = new Server(
      { name: 'toolloop', version: '0.0.0' },
      { capabilities: { tools: {}, logging: {} } },
    );
    server.setRequestHandler('tools/list', () => ({ tools: [] }));
    server.setRequestHandler('tools/call', () => ({ content: [{ type: 'text', text: '7' }] }));
    return server;
  },
  { legacy: 'reject' },
);

/** What became of a request: its status and its error, or its result. */
async function outcomeOf(response: Response): Promise<unknown> {
  const text = await response.text();
  const { error, id, result } = JSON.parse(text === '' ? '{}' : text) as Record<string, unknown>;
  return { status: response.status, error, id, hasResult: result !== undefined };
}

const encoded = (name: string): string => `=?base64?${Buffer.from(name).toString('base64')}?=`;

describe('a request of 2026', () => {
  it.each<[string, Message, HeaderValues]>([
    ['says in its headers what its body says', {}, {}],
    ['lists the tools', { method: 'tools/list', params: {} }, {}],
    [
      'lists the tools, and names one',
      { method: 'tools/list', params: {} },
      { [NAME]: 'notes__count' },
    ],
    ['leaves its name out', {}, { [NAME]: undefined }],
    ['leaves its method out', {}, { [METHOD]: undefined }],
    ['leaves its revision out', {}, { [VERSION]: undefined }],
    [
      'leaves all of them out',
      {},
      { [VERSION]: undefined, [METHOD]: undefined, [NAME]: undefined },
    ],
    ['names another tool', {}, { [NAME]: 'notes__send' }],
    ['names another tool in other letters', {}, { [NAME]: 'NOTES__COUNT' }],
    ['names its tool twice', {}, { [NAME]: 'notes__count, notes__count' }],
    ['names its tool with spaces around', {}, { [NAME]: '  notes__count  ' }],
    ['names its tool, encoded', {}, { [NAME]: encoded('notes__count') }],
    ['names another tool, encoded', {}, { [NAME]: encoded('notes__send') }],
    [
      'names a tool that is written as if it were encoded',
      { params: { name: encoded('notes__count') } },
      {},
    ],
    ['names what is no encoding', {}, { [NAME]: '=?base64?%%%?=' }],
    ['names another method', {}, { [METHOD]: 'tools/list' }],
    ['names its method in other letters', {}, { [METHOD]: 'Tools/Call' }],
    ['names an older revision in its header', {}, { [VERSION]: '2025-11-25' }],
    ['names a session of 2025 beside', {}, { 'mcp-session-id': 'of-another' }],
    [
      'names an older revision, and a session',
      {},
      { [VERSION]: '2025-11-25', 'mcp-session-id': 'of-another' },
    ],
    ['names a revision to come in its header', {}, { [VERSION]: '2099-01-01' }],
    [
      'names a revision to come',
      { meta: { ...ENVELOPE, 'io.modelcontextprotocol/protocolVersion': '2099-01-01' } },
      { [VERSION]: '2099-01-01' },
    ],
    ['names no revision in its body', { meta: {} }, {}],
    [
      'names a revision that is a number',
      { meta: { ...ENVELOPE, 'io.modelcontextprotocol/protocolVersion': 7 } },
      {},
    ],
    [
      'declares no capabilities',
      { meta: { 'io.modelcontextprotocol/protocolVersion': REVISION } },
      {},
    ],
    [
      'declares capabilities that are a list',
      { meta: { ...ENVELOPE, 'io.modelcontextprotocol/clientCapabilities': [] } },
      {},
    ],
    [
      'has a client without a name',
      { meta: { ...ENVELOPE, 'io.modelcontextprotocol/clientInfo': {} } },
      {},
    ],
    ['has metadata that is a text', { meta: 'none' }, {}],
    ['has an id that is null', { id: null }, {}],
    ['has an id that is no whole number', { id: 1.5 }, {}],
    ['has an id that is an object', { id: {} }, {}],
    ['has a method that is a number', { method: 7 }, {}],
    ['has a method that every object has', { method: 'constructor', params: {} }, {}],
    ['has a method that there is not', { method: 'tools/delete', params: {} }, {}],
    ['has a method of the older era', { method: 'ping', params: {} }, {}],
    ['begins a session of the older era', { method: 'initialize', params: {} }, {}],
    ['sets a level for its session', { method: 'logging/setLevel', params: { level: 'info' } }, {}],
    ['calls no tool', { params: {} }, {}],
    ['calls a tool whose name is a number', { params: { name: 7 } }, { [NAME]: '7' }],
    ['has arguments that are a list', { params: { name: 'notes__count', arguments: [] } }, {}],
    ['has a result beside its method', { others: { result: { content: [] } } }, {}],
    [
      'has an error beside its method',
      { others: { error: { code: -32_603, message: 'None.' } } },
      {},
    ],
    ['has a member that no message has', { others: { tenant: 'globex' } }, {}],
    ['is of another version of JSON-RPC', { others: { jsonrpc: '1.0' } }, {}],
    ['has a state that is no text', { params: { name: 'notes__count', requestState: 7 } }, {}],
    ['takes JSON alone', {}, { accept: 'application/json' }],
    ['takes anything', {}, { accept: '*/*' }],
    ['is JSON in an encoding', {}, { 'content-type': 'application/json; charset=utf-8' }],
  ])('S8: is answered, or refused, as the SDK does it where it %s', async (_, message, others) => {
    const body = JSON.stringify(messageOf(message));
    const headers = {
      ...headersOf(message, {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        ...others,
      }),
    };
    const expected = await ofSdk.fetch(
      new Request('http://localhost/mcp', { method: 'POST', headers, body }),
    );
    const answer = await outcomeOf(await post(await serve(), body, headers));
    expect(answer).toEqual(await outcomeOf(expected));
  });
});

describe.each(['express', 'fastify'] as const)(
  'a client of 2026 that drops its connection (%s)',
  (platform) => {
    it.each([
      ['before anything is told', {}],
      ['after its progress was told', { progressToken: 'p' }],
    ])('S18: ends its call %s', async (_, meta) => {
      const served = await serve({ platform });
      const { begun, aborted } = served.app.get(Witness);
      const params = { name: 'notes__work', arguments: { name: 'slow' } };
      const leaving = new AbortController();
      const headers = {
        ...headersOf({ params }),
        authorization: 'Bearer alice',
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      };
      const body = JSON.stringify(messageOf({ params, meta: { ...ENVELOPE, ...meta } }));
      const answer = fetch(`${served.url}/mcp`, {
        method: 'POST',
        signal: leaving.signal,
        headers,
        body,
      });
      answer.catch(() => undefined);
      if ('progressToken' in meta) await answer;
      else await until(() => begun.length > 0);
      leaving.abort();
      await until(() => aborted.length > 0);
      expect(aborted).toEqual(['slow']);
      expect((await ask(served, {})).status).toBe(200);
    });
  },
);

interface SocketRequest {
  readonly token: string;
  readonly message: Message;
}

/** Sends requests over one socket without waiting for an answer. */
function pipeline({ url }: Served, requests: readonly SocketRequest[]): Socket {
  const { port } = new URL(url);
  const texts = requests.map(({ token, message }) => {
    const body = JSON.stringify(messageOf(message));
    const others = {
      host: 'localhost',
      authorization: `Bearer ${token}`,
      accept: 'application/json, text/event-stream',
    };
    const sent = {
      ...headersOf(message),
      ...others,
      'content-type': 'application/json',
      'content-length': `${Buffer.byteLength(body)}`,
    };
    return [
      'POST /mcp HTTP/1.1',
      ...Object.entries(sent).map(([name, value]) => `${name}: ${value}`),
      '',
      body,
    ].join('\r\n');
  });
  const socket = openSocket(Number(port), '127.0.0.1', () => void socket.write(texts.join('')));
  return socket.setEncoding('utf8');
}

describe('one connection', () => {
  it('S15: has the requests of two tenants at once, each with its own answer', async () => {
    const served = await serve();
    const message = { id: 1, params: { name: 'notes__read', arguments: { id: 'n1' } } };
    const tokens = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? 'alice' : 'bob'));
    let received = '';
    const socket = pipeline(served, tokens.map((token) => ({ token, message }))); // prettier-ignore
    socket.on('data', (text: string) => (received += text));
    const answers = (): string[] =>
      [...received.matchAll(/"structuredContent":\{"id":"n1","text":"a note of (\w+)"/g)].map(
        ([, tenant = '']) => tenant,
      );
    await until(() => answers().length === tokens.length);
    socket.destroy();
    expect(answers()).toEqual(tokens.map((token) => (token === 'alice' ? 'acme' : 'globex')));
  });

  it('S18: ends all of its calls where it is dropped, those of which nothing was told yet too', async () => {
    const served = await serve();
    const { begun, aborted } = served.app.get(Witness);
    const names = Array.from({ length: 5 }, (_, index) => `slow ${index}`);
    const messages = names.map((name, id) => ({
      id,
      params: { name: 'notes__work', arguments: { name } },
    }));
    const socket = pipeline(served, messages.map((message) => ({ token: 'alice', message }))); // prettier-ignore
    await until(() => begun.length === names.length);
    socket.destroy();
    await until(() => aborted.length === names.length);
    expect(aborted.toSorted()).toEqual(names);
  });
});
