import { afterEach, describe, expect, it } from '@jest/globals';
import type { Client, ElicitRequest, ElicitResult } from '@modelcontextprotocol/client';
import { type Policy, PendingService, ToolLoopService } from '@toolloop/core';
import type { McpPrincipal, McpServerOptions } from '@toolloop/mcp';
import { call as made, calls, ScriptedModel, text } from '@toolloop/testing';
import { inAnHour } from '../../../core/test/fixtures/time.js';
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

const ASKING = (terms: object = {}): Policy => ({
  version: '1',
  flow: 'off',
  allow: ['notes__*', 'note_*_*'],
  requireApproval: [{ tools: ['notes__send'], reason: 'Mail leaves the house.', ...terms }],
});
const SEND = { name: 'notes__send', arguments: { to: 'eve@example.com' } };
const MIA: McpPrincipal = { actor: { id: 'mia', roles: ['manager'] }, tenant: 'acme' };
const person = (name: string): McpPrincipal => ({
  ...(PEOPLE[name] ?? { actor: {}, tenant: '' }),
  isPerson: true,
});

function served(terms: object, server: Partial<McpServerOptions>): Promise<Served> {
  return serve({ loop: { policy: ASKING(terms) }, server });
}

interface Answering extends Connection {
  readonly answer?: (request: ElicitRequest['params']) => ElicitResult;
}

/** A client whose user answers in one way, and the questions that were put. */
async function asked(desk: Served, { answer, ...connection }: Answering) {
  const questions: ElicitRequest['params'][] = [];
  const options = answer ? { capabilities: { elicitation: { form: {}, url: {} } } } : {};
  const client = await connect(desk, { ...connection, options });
  if (answer)
    client.setRequestHandler('elicitation/create', ({ params }) => {
      questions.push(params);
      return answer(params);
    });
  return { client, questions };
}

const said = async (client: Client): Promise<string> => {
  const { isError, content } = await client.callTool(SEND);
  const [first] = content;
  return `${isError ? 'error' : 'done'}: ${first?.type === 'text' ? first.text : ''}`;
};
const approvalUrl = ({ approvalId }: { readonly approvalId: string }): string =>
  `https://desk.example.com/approvals/${approvalId}`;
const accept = () => ({ action: 'accept', content: { approve: true } }) as const;

describe.each(ERAS)('a call that needs an approval, in the era of %s,', (era) => {
  const byPerson = {
    verifier: { verify: (token: string) => (PEOPLE[token] ? person(token) : undefined) },
  };

  it('is asked about in the client, where a person is behind the token and may approve it', async () => {
    const desk = await served({}, byPerson);
    const { client, questions } = await asked(desk, { era, answer: accept });
    expect(await said(client)).toBe('done: sent to eve@example.com');
    expect(questions).toEqual([
      expect.objectContaining({
        mode: 'form',
        message: expect.stringContaining('eve@example.com') as unknown,
      }),
    ]);
  });

  it.each([
    ['declines', () => ({ action: 'decline' }) as const],
    ['accepts without a tick', () => ({ action: 'accept', content: { approve: false } }) as const],
  ])('S11: is not made where the person %s', async (_, answer) => {
    const { client } = await asked(await served({}, byPerson), { era, answer });
    expect(await said(client)).toMatch(/^error: .*approval_denied/);
  });

  it('waits on where the person leaves the question open, and is asked about again', async () => {
    let action: 'cancel' | 'accept' = 'cancel';
    const { client, questions } = await asked(await served({}, byPerson), {
      era,
      answer: () => ({ action, content: { approve: true } }),
    });
    expect(await said(client)).toMatch(/^error: .*waits for an approval/);
    action = 'accept';
    expect(await said(client)).toBe('done: sent to eve@example.com');
    expect(questions).toHaveLength(2);
  });

  it('S13: is not asked about in a client that may answer by itself: its own yes approves nothing, and the address of the page says nothing of the call', async () => {
    const desk = await served({}, { approvalUrl });
    const { client, questions } = await asked(desk, { era, answer: accept });
    expect(await said(client)).toMatch(/^error: .*waits for an approval/);
    expect(questions).toEqual([
      expect.objectContaining({
        mode: 'url',
        url: expect.stringMatching(/^https:\/\/desk\.example\.com/) as unknown,
      }),
    ]);
    expect(JSON.stringify(questions)).not.toMatch(/eve@example\.com|alice/);
  });

  it('is not asked about in the client of a person whose answer does not count', async () => {
    const desk = await served({ roles: ['manager'], notRequester: true }, byPerson);
    const { client, questions } = await asked(desk, { era, answer: accept });
    expect(await said(client)).toMatch(/^error: .*waits for an approval/);
    expect(questions).toEqual([]);
  });

  it('S12: waits where the client can ask no person, and a later equal call fetches the result of the one call that was made', async () => {
    const desk = await served({ roles: ['manager'], notRequester: true }, {});
    const { client } = await asked(desk, { era });
    const { _meta: meta, content } = await client.callTool(SEND);
    const { approvalId } = (meta ?? {})['toolloop/waiting'] as { approvalId: string };
    expect(JSON.stringify(content)).toContain(approvalId);
    expect(await said(client)).toMatch(/waits for an approval/);
    const pending: PendingService = desk.app.get(PendingService);
    const mia = MIA;
    expect(await pending.list(mia)).toHaveLength(1);
    await pending.decide({ approvalId, decision: 'approve' }, mia);
    const other = await client.callTool({ ...SEND, arguments: { to: 'ann@example.com' } });
    expect(JSON.stringify(other.content)).toMatch(/waits for an approval/);
    expect(await said(client)).toBe('done: sent to eve@example.com');
    expect(await said(client)).toMatch(/waits for an approval/);
  });

  it('keeps its result for its own caller', async () => {
    const desk = await served({ roles: ['manager'] }, {});
    const { client } = await asked(desk, { era });
    await client.callTool(SEND);
    const pending: PendingService = desk.app.get(PendingService);
    const mia = MIA;
    const [request] = await pending.list(mia);
    await pending.decide({ approvalId: request?.approvalId ?? '', decision: 'approve' }, mia);
    for (const token of ['bob', 'mia'])
      expect(await said((await asked(desk, { era, token })).client)).toMatch(
        /waits for an approval/,
      );
    expect(await said(client)).toBe('done: sent to eve@example.com');
  });
});

/** The parameters of one round of a call, and what the client says that it can show. */
interface Round extends Readonly<Record<string, unknown>> {
  readonly abilities?: object;
}

describe('the state that a client keeps between two rounds', () => {
  const META = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'spec', version: '1' },
  };
  const YES = { approval: { action: 'accept', content: { approve: true } } };
  const server = {
    verifier: { verify: (token: string) => (PEOPLE[token] ? person(token) : undefined) },
  };

  async function round(
    desk: Served,
    { abilities = { form: {} }, ...params }: Round,
    authorization = 'Bearer alice',
  ) {
    const meta = {
      ...META,
      'io.modelcontextprotocol/clientCapabilities': { elicitation: abilities },
    };
    const body = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { ...SEND, ...params, _meta: meta },
    };
    const headers = {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': SEND.name,
      authorization,
    };
    const answer = (await (await post(desk, body, headers)).json()) as {
      result?: Record<string, unknown>;
      error?: { code: number };
    };
    return { ...answer.result, code: answer.error?.code } as Record<string, unknown>;
  }

  it('S9, S10, S11: is good for its own call, caller and arguments, and for one use', async () => {
    const desk = await served({}, server);
    const first = await round(desk, {});
    expect(first).toMatchObject({
      resultType: 'input_required',
      inputRequests: { approval: { method: 'elicitation/create' } },
    });
    const { requestState } = first;
    const inputResponses = { approval: { action: 'accept', content: { approve: true } } };
    expect(
      await round(desk, {
        requestState: `${String(requestState).slice(0, -3)}AAA`,
        inputResponses,
      }),
    ).toMatchObject({ code: -32_602 });
    expect(await round(desk, { requestState, inputResponses }, 'Bearer mia')).toMatchObject({
      code: -32_602,
    });
    expect(
      await round(desk, { requestState, inputResponses, arguments: { to: 'mallory@example.com' } }),
    ).toMatchObject({ code: -32_602 });
    expect(await round(desk, { requestState, inputResponses })).toMatchObject({
      content: [{ text: 'sent to eve@example.com' }],
    });
    expect(await round(desk, { requestState, inputResponses })).toMatchObject({ code: -32_602 });
  });

  it('S9: is good for an hour', async () => {
    const desk = await served({}, server);
    const { requestState } = await round(desk, {});
    const late = (): Promise<object> => round(desk, { requestState, inputResponses: YES });
    expect(await inAnHour(() => inAnHour(late))).toMatchObject({ code: -32_602 });
  });

  it('S10: lets two requests that bring it at once make the call once', async () => {
    const desk = await served({}, server);
    const { requestState } = await round(desk, {});
    const params = {
      requestState,
      inputResponses: { approval: { action: 'accept', content: { approve: true } } },
    };
    const answers = await Promise.all([
      round(desk, params),
      round(desk, params),
      round(desk, params),
    ]);
    expect(
      answers.filter(({ content }) => JSON.stringify(content)?.includes('sent to')),
    ).toHaveLength(1);
  });

  it('S11: takes a text for no tick, and an answer without the state for nothing', async () => {
    const desk = await served({}, server);
    const { requestState } = await round(desk, {});
    const approval = { action: 'accept', content: { approve: 'true' } };
    expect(await round(desk, { requestState, inputResponses: { approval } })).toMatchObject({
      isError: true,
    });
    expect(
      await round(desk, {
        inputResponses: { approval: { action: 'accept', content: { approve: true } } },
      }),
    ).toMatchObject({
      resultType: 'input_required',
    });
  });

  it('S11: lists what was asked in a form, and the yes to an approval that it does not list counts for nothing', async () => {
    const desk = await served({}, { ...server, approvalUrl });
    const { requestState, inputRequests } = await round(desk, { abilities: { url: {} } });
    expect(inputRequests).toMatchObject({ approval: { params: { mode: 'url' } } });
    const forged = await round(desk, { requestState, inputResponses: YES });
    expect(JSON.stringify(forged)).not.toContain('sent to');
    expect(await desk.app.get<PendingService>(PendingService).list(person('alice'))).toHaveLength(
      1,
    );
    const again = await round(desk, {});
    expect(again).toMatchObject({ inputRequests: { approval: { params: { mode: 'form' } } } });
    expect(
      await round(desk, { requestState: again['requestState'], inputResponses: YES }),
    ).toMatchObject({
      content: [{ text: 'sent to eve@example.com' }],
    });
  });

  it.each([
    ['its own user, where no person is behind the token', {}, {}, person('alice')],
    [
      'a user whose yes does not count, since another one has to give it',
      { roles: ['manager'], notRequester: true },
      server,
      MIA,
    ],
  ])(
    'S11: approves nothing for a client that answers in the name of %s',
    async (_, terms, more, approver) => {
      const desk = await served(terms, { ...more, approvalUrl });
      const { requestState } = await round(desk, { abilities: { form: {}, url: {} } });
      const forged = await round(desk, { requestState, inputResponses: YES });
      const unasked = await round(desk, { inputResponses: YES });
      expect(JSON.stringify([forged, unasked])).not.toContain('sent to');
      expect(await desk.app.get<PendingService>(PendingService).list(approver)).toHaveLength(1);
    },
  );
});

const approver: McpServerOptions['approver'] = ({ headers, credential }) =>
  credential === 'word of mia' || headers['cookie'] === 'desk=mia' ? PEOPLE['mia'] : undefined;

const careless: McpServerOptions['approver'] = ({
  headers,
  credential = String(headers['authorization'] ?? '').slice(7),
}) => PEOPLE[credential];

async function waiting(server: Partial<McpServerOptions> = { approver }, path = '/mcp') {
  const desk = await served({ roles: ['manager'], notRequester: true }, server);
  const { client, questions } = await asked(desk, { answer: accept, path });
  await client.callTool({ ...SEND, arguments: { to: '<script>alert(1)</script>' } });
  const url = questions[0] && 'url' in questions[0] ? questions[0].url : '';
  const visit = (form?: Record<string, string>, headers: Record<string, string> = {}) =>
    fetch(
      url,
      form
        ? {
            method: 'POST',
            body: new URLSearchParams(form),
            headers: { origin: desk.url, ...headers },
          }
        : { headers },
    );
  const fetchResult = () =>
    client
      .callTool({ ...SEND, arguments: { to: '<script>alert(1)</script>' } })
      .then(({ content }) => JSON.stringify(content));
  return { desk, url, visit, fetchResult };
}

/** All that a visitor learns. */
async function shownIn(answering: Promise<Response>): Promise<readonly unknown[]> {
  const response = await answering;
  return [response.status, response.headers.get('content-length'), await response.text()];
}

describe('the page of an approval', () => {
  it('S13: asks who visits before it shows anything, and takes the decision of those who may', async () => {
    const { url, desk, visit, fetchResult } = await waiting();
    expect(url).toMatch(new RegExp(`^${desk.url}/mcp/approve/\\w+$`));
    const empty = await visit();
    expect([empty.status, await empty.text()]).toEqual([
      401,
      expect.not.stringContaining('script'),
    ]);
    const call = await visit({ credential: 'word of mia' });
    expect([call.status, await call.text()]).toEqual([
      200,
      expect.stringContaining('&lt;script&gt;alert(1)'),
    ]);
    expect(call.headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
    expect((await visit({ credential: 'word of mia', decision: 'approve' })).status).toBe(200);
    expect(await fetchResult()).toContain('sent to <script>');
    expect((await visit({ credential: 'word of mia', decision: 'approve' })).status).toBe(409);
  });

  it.each(['/mcp/', '/mcp/fresh', '/mcp/%66resh', '/mcp/fresh/'])(
    'has its own address, however the client writes that of the server: %s',
    async (path) => {
      const { url, desk, visit } = await waiting({ approver }, path);
      expect(url).toMatch(new RegExp(`^${desk.url}/mcp/approve/\\w+$`));
      expect((await visit({ credential: 'word of mia' })).status).toBe(200);
    },
  );

  it('knows a person by the cookie of the application, and refuses the form of another site', async () => {
    const { visit, fetchResult } = await waiting();
    const cookie = 'desk=mia';
    expect((await visit(undefined, { cookie })).status).toBe(200);
    expect(
      (await visit({ decision: 'approve' }, { cookie, origin: 'https://evil.example' })).status,
    ).toBe(403);
    expect(await fetchResult()).toContain('waits for an approval');
    expect((await visit({ decision: 'deny' }, { cookie })).status).toBe(200);
    expect(await fetchResult()).toContain('approval_denied');
  });

  it('S13: takes no token of an MCP client, be it typed or in a header, so that a client cannot approve its own calls', async () => {
    const { visit, fetchResult } = await waiting({ approver: careless });
    expect((await visit({ credential: 'mia', decision: 'approve' })).status).toBe(401);
    expect((await visit({ decision: 'approve' }, { authorization: 'Bearer mia' })).status).toBe(
      401,
    );
    expect(await fetchResult()).toContain('waits for an approval');
  });

  it('S13: shows nothing of a rehearsal, and decides nothing about one', async () => {
    const model = new ScriptedModel([
      calls(made('notes__send', { to: 'eve@example.com' })),
      text('Done.'),
    ]);
    const desk = await serve({
      loop: { policy: ASKING({ roles: ['manager'] }), model },
      server: { approver },
    });
    const loop: ToolLoopService = desk.app.get(ToolLoopService);
    const { actor, tenant } = person('alice');
    expect(await loop.run({ prompt: 'Send it.', actor, tenant, rehearse: true })).toMatchObject({
      waitingFor: 'rehearsal',
    });
    const pending: PendingService = desk.app.get(PendingService);
    const open = async () => (await pending.inbox(MIA, { kind: 'rehearsal' })).map(({ id }) => id);
    const ids = await open();
    const visit = (form: Record<string, string>) =>
      fetch(`${desk.url}/mcp/approve/${ids[0]}`, {
        method: 'POST',
        body: new URLSearchParams({ credential: 'word of mia', ...form }),
        headers: { origin: desk.url },
      });
    const shown = await visit({});
    expect([ids.length, shown.status, await shown.text()]).toEqual([
      1,
      401,
      expect.not.stringContaining('eve@example.com'),
    ]);
    for (const decision of ['approve', 'deny'])
      expect((await visit({ decision })).status).toBe(401);
    expect(await open()).toEqual(ids);
  });

  it('S13: says the same for a right word and a wrong one where neither decides about the call', async () => {
    const { url, desk, visit } = await waiting();
    const at = (id: string, credential: string, more = {}) =>
      fetch(url.replace(/\w+$/, id), {
        method: 'POST',
        body: new URLSearchParams({ credential, ...more }),
        headers: { origin: desk.url },
      });
    const wrong = await shownIn(visit({ credential: 'word of nobody' }));
    expect(wrong[0]).toBe(401);
    expect(await shownIn(visit({ credential: 'alice' }))).toEqual(wrong); // the token of a client
    expect(await shownIn(at('apr_none', 'word of mia'))).toEqual(wrong);
    expect(await shownIn(at('apr_none', 'word of mia', { decision: 'approve' }))).toEqual(wrong);
    expect((await visit({ credential: 'word of mia' })).status).toBe(200);
  });

  it('S13: slows down who tries words: after five that do not count, a right one has to wait, too', async () => {
    const { visit, fetchResult } = await waiting();
    // which counts as no guess
    for (let tries = 0; tries < 20; tries += 1)
      expect((await visit({ credential: 'word of mia' })).status).toBe(200);
    const statuses: number[] = [];
    for (const word of ['a', 'b', 'c', 'd', 'e', 'f'])
      statuses.push((await visit({ credential: word })).status);
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429]);
    const late = await visit({ credential: 'word of mia', decision: 'approve' });
    expect(late.status).toBe(429);
    expect(Number(late.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await fetchResult()).toContain('waits for an approval');
    // the application knows this person by a cookie
    expect((await visit(undefined, { cookie: 'desk=mia' })).status).toBe(200);
  });

  it('is not there where the application identifies no people', async () => {
    const desk = await serve();
    expect((await fetch(`${desk.url}/mcp/approve/x`)).status).toBe(404);
  });

  it('does not decide twice where two people answer at once', async () => {
    const { visit } = await waiting();
    const form = { credential: 'word of mia' };
    const answers = await Promise.all([
      visit({ ...form, decision: 'approve' }),
      visit({ ...form, decision: 'deny' }),
    ]);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 409]));
  });
});
