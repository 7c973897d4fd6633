import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Client } from '@modelcontextprotocol/client';
import { ActorDirectory, ToolLoopService } from '@toolloop/core';
import { type OperatorAction } from '@toolloop/core/policy';
import { AuditStore } from '@toolloop/core/stores';
import { closeAll, connect, ERAS, PEOPLE, post, serve, type Served } from './served-notes.js';

const operators = (actor: unknown): boolean => JSON.stringify(actor).includes('operator');
const LOOP = { operators, audit: { key: 'k'.repeat(32) } };
const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'spec', version: '1' },
  },
};
class Staff extends ActorDirectory {
  override find(id: string, tenant: string): Promise<unknown> {
    const person = PEOPLE[id];
    return Promise.resolve(person?.tenant === tenant ? person.actor : undefined);
  }
}

const path = '/mcp-dev';
const asked = async (served: Served, headers: Record<string, string> = {}): Promise<number> =>
  (await post(served, INITIALIZE, { path, authorization: 'Bearer otto', ...headers })).status;

async function answerOf(
  client: Client,
  name: string,
  args: Record<string, unknown> = {},
): Promise<string> {
  const { content } = await client.callTool({ name, arguments: args });
  return content.map((block) => (block.type === 'text' ? block.text : '')).join('\n');
}

let served: Served;

beforeAll(async () => {
  served = await serve({
    server: {
      devTools: true,
      anonymous: { actor: { id: 'otto', roles: ['operator'] }, tenant: 'acme' },
    },
    loop: LOOP,
    providers: [Staff],
  });
});
afterAll(closeAll);

describe('the tools for developers', () => {
  const environment = process.env['NODE_ENV'];

  afterEach(() => {
    process.env['NODE_ENV'] = environment;
  });

  it('are not there unless they are switched on', async () => {
    expect(await asked(await serve({ loop: LOOP }))).toBe(404);
  });

  it('keep an application in production from starting', async () => {
    process.env['NODE_ENV'] = 'production';
    await expect(serve({ server: { devTools: true }, loop: LOOP })).rejects.toThrow(
      'The development tools are on, and NODE_ENV is production.',
    );
  });

  it('are not there where others can reach the application, be it by its address or through a proxy', async () => {
    expect(
      await asked(await serve({ server: { devTools: true }, loop: LOOP, host: '0.0.0.0' })),
    ).toBe(404);
    expect(await asked(served, { 'x-forwarded-for': '203.0.113.7' })).toBe(404);
    expect(await asked(served, { origin: 'https://evil.example' })).toBe(403);
    expect(await asked(served)).toBe(200);
  });

  it.each([
    ['no token, though requests without one have a principal elsewhere', '', 401],
    ['a token that is unknown', 'Bearer nobody', 401],
    ['the token of someone who is no operator', 'Bearer alice', 403],
  ])('refuse a request with %s', async (_, authorization, status) => {
    expect(await asked(served, { authorization })).toBe(status);
  });

  it('say in the audit who has used them, and who was refused', async () => {
    await asked(served, { authorization: 'Bearer alice' });
    await answerOf(await connect(served, { token: 'otto', path }), 'findings');
    const audit: AuditStore = served.app.get(AuditStore, { strict: false });
    const entries = await audit.read('acme', { from: 1, limit: 1_000 });
    const uses = entries.filter(
      (entry) =>
        entry.kind === 'operator' && entry.action === ('devTools' satisfies OperatorAction),
    );
    expect(uses).toContainEqual(expect.objectContaining({ actorId: 'alice', granted: false }));
    expect(uses).toContainEqual(
      expect.objectContaining({ actorId: 'otto', granted: true, details: { tool: 'findings' } }),
    );
  });
});

describe.each(ERAS)('an operator with a client of the era of %s', (era) => {
  let client: Client;

  beforeAll(async () => {
    client = await connect(served, { token: 'otto', path, era });
  });

  it('sees modules, tools and findings, and everything about one tool', async () => {
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual([
      'modules',
      'tools',
      'findings',
      'runs',
      'explain',
      'call',
    ]);
    expect(await answerOf(client, 'modules')).toContain('"NoteTools"');
    const tools = await answerOf(client, 'tools');
    expect(tools).toContain('notes__find');
    expect(tools).toContain('note_*_edit');
    expect(await answerOf(client, 'tools', { tool: 'notes__read' })).toContain('inputSchema');
    expect(await answerOf(client, 'tools', { tool: 'notes__reed' })).toContain('notes__read');
    expect(JSON.parse(await answerOf(client, 'findings'))).toMatchObject([
      { at: 'NoteTools.send' },
    ]);
  });

  it('reads why a tool is offered, to them or to someone of their tenant', async () => {
    expect(JSON.parse(await answerOf(client, 'explain', { tool: 'notes__manage' }))).toMatchObject({
      isListed: false,
    });
    expect(
      JSON.parse(await answerOf(client, 'explain', { tool: 'notes__manage', actorId: 'mia' })),
    ).toMatchObject({ isListed: true });
    expect(await answerOf(client, 'explain', { tool: 'notes__find', actorId: 'bob' })).toContain(
      'No actor of this tenant',
    );
    expect(await answerOf(client, 'explain')).toContain('Name a tool');
  });

  it('sees the runs of their own tenant, and of no other', async () => {
    const loop: ToolLoopService = served.app.get(ToolLoopService, { strict: false });
    const { actor } = PEOPLE['alice'] ?? {};
    const policy = {
      version: '1',
      flow: 'off',
      allow: ['notes__*'],
      requireApproval: [{ tools: ['notes__send'], reason: 'It is sent.' }],
    } as const;
    const { runId } = await loop.call({
      tool: 'notes__send',
      args: { to: 'a' },
      actor,
      tenant: 'acme',
      policy,
    });
    expect(await answerOf(client, 'runs', { status: 'waiting' })).toContain(runId);
    const abroad = await connect(served, { token: 'olga', path, era });
    expect(JSON.parse(await answerOf(abroad, 'runs'))).toEqual([]);
    const one = { runId, toolCallId: 'call_1_0' };
    expect(await answerOf(client, 'explain', one)).toContain('It is sent.');
    expect(await answerOf(abroad, 'explain', one)).toContain('no such call');
  });

  it('rehearses a call in their own name: reads are made, and nothing is changed or sent', async () => {
    expect(await answerOf(client, 'call', { tool: 'notes__read', args: { id: 'n1' } })).toContain(
      'a note of acme',
    );
    const sent = await answerOf(client, 'call', { tool: 'notes__send', args: { to: 'eve' } });
    expect(sent).toContain('"rehearsal": "previewed"');
    expect(sent).not.toContain('sent to eve');
    expect(await answerOf(client, 'call', { tool: 'notes__manage' })).toContain('unknown_tool');
    expect(await answerOf(client, 'call', { tool: 7 })).toMatch(/string/);
  });
});
