import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { Client, Tool } from '@modelcontextprotocol/client';
import {
  type LoopEvent,
  LoopEventSink,
  type ToolInvocationRecord,
  ToolLoopService,
} from '@toolloop/core';
import { type RunIdentity } from '@toolloop/protocol';
import type { LoopHooks } from '@toolloop/core/contracts';
import { type AuditEntry, AuditStore, MemoryAuditStore } from '@toolloop/core/stores';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { PostedRequest } from '../../src/server/http-requests.js';
import { Witness } from './notes.js';
import {
  closeAll,
  connect,
  ERAS,
  PEOPLE,
  post,
  serve,
  type Connection,
  type Served,
} from './served-notes.js';

afterEach(closeAll);

const names = async (client: Client): Promise<string[]> =>
  (await client.listTools()).tools.map(({ name }) => name);
const find = (client: Client) =>
  client.callTool({ name: 'notes__find', arguments: { word: 'tea' } });
const EDIT = 'note_n1_edit';

/** Waits for what another process, or another turn, is about to bring. */
async function until(holds: () => boolean): Promise<void> {
  for (let turn = 0; turn < 2_000 && !holds(); turn += 1)
    await new Promise((resolve) => setTimeout(resolve, 10));
}

/** A client that notes the lists which it is told of. */
async function listener(served: Served, connection: Connection): Promise<Tool[][]> {
  const told: Tool[][] = [];
  const tools = {
    onChanged: (_error: unknown, list: Tool[] | null) => void (list && told.push(list)),
    debounceMs: 0,
  };
  await connect(served, { ...connection, options: { listChanged: { tools } } });
  return told;
}

describe('the tools of an entity', () => {
  it('are those of the session whose call has brought it (2025)', async () => {
    const served = await serve();
    const [one, other] = [
      await connect(served, { era: '2025' }),
      await connect(served, { era: '2025' }),
    ];
    await find(one);
    expect(await names(one)).toContain(EDIT);
    expect(await names(other)).not.toContain(EDIT);
    const { structuredContent } = await one.callTool({ name: EDIT, arguments: { text: 'milk' } });
    expect(structuredContent).toEqual({ id: 'n1', text: 'milk' });
    await expect(other.callTool({ name: EDIT, arguments: { text: 'milk' } })).rejects.toThrow(
      /No tool is named/,
    );
  });

  it('are those of the scope, on every connection of the same caller and of no other (2026)', async () => {
    const served = await serve();
    const at = (path: string, token = 'alice') => connect(served, { path, token });
    await find(await at('/mcp/desk'));
    expect(await names(await at('/mcp/desk'))).toContain(EDIT);
    for (const client of [
      await at('/mcp/shelf'),
      await at('/mcp'),
      await at('/mcp/desk', 'bob'),
      await at('/mcp/desk', 'mia'),
    ])
      expect(await names(client)).not.toContain(EDIT);
  });

  it('are refused in a scope that is no name', async () => {
    const served = await serve();
    const refused = await post(served, {}, { path: '/mcp/a%20b' });
    expect([refused.status, await refused.text()]).toEqual([
      404,
      expect.stringContaining('A scope has 1 to 64'),
    ]);
  });

  it.each(ERAS)(
    'S16: are told to the caller whose call has brought them, and to no other (%s)',
    async (era) => {
      const served = await serve();
      const path = '/mcp/desk';
      const [ofMia, ofBob] = [
        await listener(served, { era, path, token: 'mia' }),
        await listener(served, { era, path, token: 'bob' }),
      ];
      const told: Tool[][] = [];
      const tools = {
        onChanged: (_error: unknown, list: Tool[] | null) => void (list && told.push(list)),
        debounceMs: 0,
      };
      const alice = await connect(served, { era, path, options: { listChanged: { tools } } });
      await find(alice);
      await until(() => told.length > 0);
      expect(told.at(-1)?.map(({ name }) => name)).toContain(EDIT);
      await find(await connect(served, { era, path, token: 'bob' }));
      if (era === '2026') await until(() => ofBob.length > 0);
      expect([told.length, ofMia.length, ofBob.length]).toEqual([1, 0, era === '2026' ? 1 : 0]);
    },
  );
});

describe('what a client has read for which the application vouches', () => {
  const SENDING = { version: '1', allow: ['notes__*', 'note_*_*'], flow: 'trifecta' } as const;
  const send = { name: 'notes__send', arguments: { to: 'eve@example.com' } };

  it.each([
    ['a later request of the same scope', '/mcp', '2026'],
    ['another scope', '/mcp/fresh', '2026'],
    ['a session of the other era', '/mcp', '2025'],
  ] as const)(
    'taints %s too, so that choosing another gets rid of nothing',
    async (_, path, era) => {
      const served = await serve({
        loop: { policy: SENDING },
        server: { vouchFor: () => 'It reads nothing else.' },
      });
      const before = await connect(served, { path: '/mcp/before' });
      expect((await before.callTool(send)).isError).toBeUndefined();
      await find(await connect(served));
      const after = await (await connect(served, { path, era })).callTool(send);
      expect([after.isError, JSON.stringify(after.content)]).toEqual([
        true,
        expect.stringMatching(/approv/i),
      ]);
      const ofBob = await (await connect(served, { token: 'bob', path, era })).callTool(send);
      expect(ofBob.isError).toBeUndefined();
    },
  );
});

const ofRecord = ({
  id,
  declaredId,
  args,
  status,
  result,
  effect,
  decision,
  error,
}: ToolInvocationRecord) => ({
  id,
  declaredId,
  args,
  status,
  result,
  effect,
  decision,
  error: error && {
    ...error,
    correlationId: undefined,
    safeMessage: error.safeMessage.replace(/[0-9a-f-]{36}/, 'ID'),
  },
});

/** An entry of the audit, without what no two entries share. */
function ofEntry(entry: AuditEntry): object {
  const {
    entryId: _id,
    sequence: _sequence,
    at: _at,
    hash: _hash,
    previousHash: _previous,
    ...event
  } = entry;
  return { ...event, runId: '', toolCallId: '', correlationId: '', durationMs: 0 };
}

/** What hooks, sinks and the audit are told of calls, in the order in which they are told. */
class Observer extends LoopEventSink {
  readonly audit = new MemoryAuditStore();
  private readonly events: unknown[] = [];
  private readonly called: unknown[] = [];
  private entries = 0;

  readonly hooks: LoopHooks = {
    onToolStart: ({ tool, actor, tenant }) =>
      void this.called.push(['start', tool.declaredId, actor, tenant]),
    onToolEnd: ({ tool, actor, tenant, record }) =>
      void this.called.push(['end', tool.declaredId, actor, tenant, ofRecord(record)]),
  };

  override write(event: LoopEvent, { tenant, actorId }: RunIdentity): void {
    if (event.type === 'tool-start') this.events.push([event.type, tenant, actorId]);
    if (event.type === 'tool-result')
      this.events.push([event.type, tenant, actorId, ofRecord(event.record)]);
  }

  /** Returns what it was told since the last time. */
  async seen(): Promise<{
    readonly events: unknown[];
    readonly hooks: unknown[];
    readonly audit: readonly object[];
  }> {
    const audit = await this.audit.read('acme', { from: this.entries + 1, limit: 100 });
    this.entries += audit.length;
    return {
      events: this.events.splice(0),
      hooks: this.called.splice(0),
      audit: audit.map(ofEntry),
    };
  }
}

describe('the same call', () => {
  it.each([
    ['that succeeds', 'notes__read', { id: 'n1' }],
    ['that fails', 'notes__fail', {}],
    ['with wrong arguments', 'notes__read', { id: 7 }],
    ['of a tool that policy hides', 'notes__manage', {}],
  ])(
    '%s leaves the same record, the same audit and the same with hooks and sinks through the loop, loop.call and MCP in both eras',
    async (_, tool, args) => {
      const observer = new Observer();
      const providers = [
        { provide: LoopEventSink, useValue: observer },
        { provide: AuditStore, useValue: observer.audit },
      ];
      const model = new ScriptedModel([calls(call(tool, args)), text('done')]);
      const served = await serve({
        loop: { model, providers, hooks: observer.hooks, audit: { key: 'k'.repeat(32) } },
      });
      const loop: ToolLoopService = served.app.get(ToolLoopService);
      const { alice = { actor: {}, tenant: '' } } = PEOPLE;
      await loop.run({ ...alice, prompt: 'Go.' });
      const ofLoop = await observer.seen();
      expect(ofLoop).toMatchObject({
        events: expect.arrayContaining([expect.arrayContaining(['tool-result', 'acme', 'alice'])]),
      });
      expect(ofLoop.audit.length).toBeGreaterThan(0);
      await loop.call({ ...alice, tool, args });
      expect(await observer.seen()).toEqual(ofLoop);
      for (const era of ERAS) {
        await (
          await connect(served, { era })
        )
          .callTool({ name: tool, arguments: args })
          .catch(() => undefined);
        expect(await observer.seen()).toEqual(ofLoop);
      }
    },
  );
});

describe('a client that leaves', () => {
  it.each(ERAS)(
    'S18: leaves no tool behind that works for longer than it may (%s)',
    async (era) => {
      const served = await serve({ loop: { limits: { toolCallMs: 300 } } });
      const { aborted, begun } = served.app.get(Witness);
      const client = await connect(served, { era });
      const working = client.callTool({ name: 'notes__work', arguments: { name: 'left' } });
      await until(() => begun.length > 0);
      await client.close();
      await expect(working).rejects.toThrow(/clos/i);
      await until(() => aborted.length > 0);
      expect(aborted).toEqual(['left']);
    },
  );

  it.each(ERAS)(
    'S18: is not waited for when the application shuts down, which closes its streams and ends its calls (%s)',
    async (era) => {
      const served = await serve();
      const { aborted, begun } = served.app.get(Witness);
      const client = await connect(served, {
        era,
        options: { listChanged: { tools: { onChanged: () => undefined } } },
      });
      const working = client
        .callTool({ name: 'notes__work', arguments: { name: 'long' } }, { timeout: 5_000 })
        .catch(() => undefined);
      await until(() => begun.length > 0);
      await served.app.close();
      expect(aborted).toEqual(['long']);
      await client.close();
      await working;
    },
  );
});

/** Begins a session of 2025 without a client, and returns a way to post in it. */
async function sessionIn(
  served: Served,
): Promise<(body: Readonly<Record<string, unknown>>) => Promise<Response>> {
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'spec', version: '1' },
  };
  const response = await post(served, { jsonrpc: '2.0', id: 0, method: 'initialize', params });
  const headers = {
    'mcp-session-id': response.headers.get('mcp-session-id') ?? '',
    'mcp-protocol-version': '2025-11-25',
  };
  await response.text();
  const within = (body: Readonly<Record<string, unknown>>): Promise<Response> =>
    post(served, { jsonrpc: '2.0', ...body }, headers);
  await within({ method: 'notifications/initialized' });
  return within;
}

const typeOf = (response: Response): string | null => response.headers.get('content-type');

describe('the answer to a request of 2025', () => {
  it('is JSON where its result is all that is told of it', async () => {
    const within = await sessionIn(await serve());
    const response = await within({
      id: 'one',
      method: 'tools/call',
      params: { name: 'notes__count' },
    });
    expect([response.status, typeOf(response)]).toEqual([200, 'application/json']);
    expect(await response.json()).toMatchObject({
      jsonrpc: '2.0',
      id: 'one',
      result: { content: [{ type: 'text', text: '7' }] },
    });
  });

  it('is events where its progress is told before', async () => {
    const within = await sessionIn(await serve());
    const params = {
      name: 'notes__work',
      arguments: { name: 'quick' },
      _meta: { progressToken: 'p' },
    };
    const response = await within({ id: 1, method: 'tools/call', params });
    expect(typeOf(response)).toBe('text/event-stream');
    const [progress = '', result = ''] = (await response.text()).split('\n\n');
    expect(progress).toContain('"notifications/progress"');
    expect(result).toContain('"text":"done"');
  });

  it('ends without a word where the request is cancelled', async () => {
    const served = await serve();
    const within = await sessionIn(served);
    const answer = within({
      id: 1,
      method: 'tools/call',
      params: { name: 'notes__work', arguments: { name: 'slow' } },
    });
    const { begun: works, aborted } = served.app.get(Witness);
    await until(() => works.includes('slow'));
    await within({ method: 'notifications/cancelled', params: { requestId: 1 } });
    expect(await (await answer).text()).toBe('');
    expect(aborted).toEqual(['slow']);
  });

  it('is that of the SDK to a request that is none', async () => {
    const within = await sessionIn(await serve());
    const refused = await within({ id: 1, method: 7 });
    expect(refused.status).toBe(400);
  });
});

describe('a posted request', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  it('is answered by events with signs of life where nothing is sent for it for a while, until it has its result', async () => {
    const posted = new PostedRequest({ 'mcp-session-id': 's' });
    jest.advanceTimersByTime(10_000);
    posted.send({ jsonrpc: '2.0', id: 1, result: {} });
    const answer = await posted.answer;
    if (!(answer instanceof Response)) throw new TypeError('It is no stream.');
    expect([typeOf(answer), answer.headers.get('mcp-session-id')]).toEqual([
      'text/event-stream',
      's',
    ]);
    const beat = ': keepalive\n\n';
    expect(await answer.text()).toBe(
      `${beat}${beat}event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n`,
    );
    expect(jest.getTimerCount()).toBe(0);
  });

  it('keeps little of its progress for a reader that stands still, and its result', async () => {
    const posted = new PostedRequest({});
    for (let progress = 1; progress <= 50_000; progress += 1)
      posted.send({
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: 'p', progress },
      });
    posted.send({ jsonrpc: '2.0', id: 1, result: {} });
    const answer = await posted.answer;
    if (!(answer instanceof Response)) throw new TypeError('It is no stream.');
    const events = (await answer.text()).trim().split('\n\n');
    expect(events.length).toBeLessThan(1_100);
    expect(events.at(-1)).toContain('"result":{}');
  });

  it('leaves no timer behind where its client leaves its events', async () => {
    const posted = new PostedRequest({});
    jest.advanceTimersByTime(5_000);
    const answer = await posted.answer;
    if (!(answer instanceof Response)) throw new TypeError('It is no stream.');
    await answer.body?.cancel();
    posted.send({ jsonrpc: '2.0', method: 'notifications/progress' });
    posted.send({ jsonrpc: '2.0', id: 1, result: {} });
    expect(jest.getTimerCount()).toBe(0);
  });
});
