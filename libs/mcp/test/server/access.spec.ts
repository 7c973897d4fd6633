import { afterEach, describe, expect, it } from '@jest/globals';
import { request } from 'node:http';
import { closeAll, connect, ERAS, PEOPLE, post, serve, type Served } from './served-notes.js';

afterEach(closeAll);

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
const LIST = { jsonrpc: '2.0', id: 2, method: 'tools/list' };
const ENVELOPE = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'spec', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};
const MODERN = { 'mcp-protocol-version': '2026-07-28' };

function modern(method: string, params: object = {}) {
  return { jsonrpc: '2.0', id: 3, method, params: { ...params, _meta: ENVELOPE } };
}

/** `fetch` does not let a caller choose the host. */
function statusFor({ url }: Served, headers: Record<string, string>): Promise<number | undefined> {
  const { port } = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        port,
        host: '127.0.0.1',
        path: '/mcp',
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
      },
      (response) => {
        response.resume();
        resolve(response.statusCode);
      },
    );
    sent.on('error', reject);
    sent.end(JSON.stringify(INITIALIZE));
  });
}

describe('the address of the server', () => {
  it.each([
    ['https://evil.example', 403],
    ['null', 403],
    ['no origin at all', 403],
    ['http://localhost:5173', 200],
  ])('S1: is asked from a page of %s, and answers %i', async (origin, status) => {
    const served = await serve();
    expect((await post(served, INITIALIZE, { origin })).status).toBe(status);
    expect(
      (await post(served, INITIALIZE, { origin, authorization: 'Bearer nobody' })).status,
    ).toBe(status === 403 ? 403 : 401);
  });

  it('is the path that the options name, wherever slashes stand', async () => {
    const served = await serve({ server: { path: '/tools/mcp/' } });
    expect((await post(served, INITIALIZE, { path: '/tools/mcp' })).status).toBe(200);
    expect((await post(served, INITIALIZE)).status).toBe(404);
  });

  it('answers a message that is nested too deep with what is wrong', async () => {
    const served = await serve();
    const deep = `${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`;
    const answer = await post(
      served,
      `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":${deep}}`,
    );
    expect([answer.status, await answer.text()]).toEqual([
      400,
      expect.stringContaining('nested deeper than 110 levels'),
    ]);
  });

  it('S2: answers under its own names alone, so that no page can rebind a name of its own to it', async () => {
    const served = await serve();
    const authorization = 'Bearer alice';
    const accept = 'application/json, text/event-stream';
    expect(await statusFor(served, { authorization, accept, host: 'evil.example' })).toBe(403);
    expect(await statusFor(served, { authorization, accept, host: 'localhost:1' })).toBe(200);
  });

  it('S2: answers under the names that the application gives, and under no others', async () => {
    const served = await serve({ server: { hosts: ['api.example.com'] } });
    const headers = {
      authorization: 'Bearer alice',
      accept: 'application/json, text/event-stream',
    };
    expect(await statusFor(served, { ...headers, host: 'api.example.com' })).toBe(200);
    expect(await statusFor(served, { ...headers, host: 'localhost' })).toBe(403);
  });
});

describe('a token', () => {
  const resource = {
    url: 'https://api.example.com/mcp',
    authorizationServers: ['https://id.example.com'],
  };
  const verify = (token: string) => {
    const { alice } = PEOPLE;
    if (!alice) return undefined;
    if (token === 'expired')
      return {
        ...alice,
        audience: resource.url,
        scopes: ['mcp'],
        expiresAt: new Date(Date.now() - 1_000),
      };
    if (token === 'other')
      return { ...alice, audience: 'https://other.example.com/mcp', scopes: ['mcp'] };
    if (token === 'narrow') return { ...alice, audience: resource.url, scopes: ['mail'] };
    return token === 'good' ? { ...alice, audience: resource.url, scopes: ['mcp'] } : undefined;
  };
  const server = { resource, requiredScopes: ['mcp'], verifier: { verify } };

  it.each([
    ['', 401, /^Bearer /],
    ['Basic YTpi', 401, /invalid_token/],
    ['Bearer unknown', 401, /invalid_token/],
    ['Bearer expired', 401, /invalid_token/],
    ['Bearer other', 401, /invalid_token/],
    ['Bearer narrow', 403, /insufficient_scope.*scope="mcp"/],
  ])(
    'S3, S4: that says "%s" is answered %i with a challenge',
    async (authorization, status, challenge) => {
      const refused = await post(await serve({ server }), INITIALIZE, { authorization });
      expect(refused.status).toBe(status);
      expect(refused.headers.get('www-authenticate')).toMatch(challenge);
      expect(refused.headers.get('www-authenticate')).toContain(
        'https://api.example.com/.well-known/oauth-protected-resource/mcp',
      );
    },
  );

  it('S3, S4: of this server lets its client in, and anyone may read where to get one', async () => {
    const served = await serve({ server });
    expect((await post(served, INITIALIZE, { authorization: 'Bearer good' })).status).toBe(200);
    const metadata = await fetch(`${served.url}/.well-known/oauth-protected-resource/mcp`);
    expect(await metadata.json()).toEqual({
      resource: resource.url,
      authorization_servers: resource.authorizationServers,
      bearer_methods_supported: ['header'],
      scopes_supported: ['mcp'],
    });
    expect(
      (await fetch(`${(await serve()).url}/.well-known/oauth-protected-resource/mcp`)).status,
    ).toBe(404);
  });

  it('S19: that the verifier fails to check is answered 500, without the reason', async () => {
    const failing = {
      verify: () => Promise.reject(new Error('The database has the password hunter2.')),
    };
    const answer = await post(await serve({ server: { verifier: failing } }), INITIALIZE);
    expect([answer.status, await answer.text()]).toEqual([
      500,
      expect.not.stringContaining('hunter2'),
    ]);
  });

  it('is not needed where the application has said whom requests without one act for', async () => {
    const served = await serve({
      server: { anonymous: { actor: { id: 'guest', roles: ['clerk'] }, tenant: 'acme' } },
    });
    expect((await post(served, INITIALIZE, { authorization: '' })).status).toBe(200);
    expect((await post(served, INITIALIZE, { authorization: 'Bearer unknown' })).status).toBe(401);
  });

  it('is needed where others can reach the server: without, the application does not start', async () => {
    const opening = serve({
      server: { hosts: ['api.example.com'], anonymous: { actor: {}, tenant: 'acme' } },
    });
    await expect(opening).rejects.toThrow(
      /lets in requests without a token, and answers as api\.example\.com/,
    );
  });
});

async function opened(
  served: Served,
  authorization = 'Bearer alice',
  path = '/mcp',
): Promise<string> {
  const answer = await post(served, INITIALIZE, { authorization, path });
  await answer.text();
  return answer.headers.get('mcp-session-id') ?? '';
}

describe('a session of the era of 2025', () => {
  it('S6: is its principal’s alone, in the scope in which it was opened', async () => {
    const served = await serve();
    const session = await opened(served);
    const status = async (headers: Record<string, string>) =>
      (await post(served, LIST, { 'mcp-session-id': session, ...headers })).status;
    expect(await status({})).toBe(200);
    expect(await status({ authorization: 'Bearer bob' })).toBe(404);
    expect(await status({ authorization: 'Bearer mia' })).toBe(404);
    expect(await status({ path: '/mcp/desk' })).toBe(404);
  });

  it('S7: is named with each request, by an id that cannot be guessed', async () => {
    const served = await serve();
    const ids = [await opened(served), await opened(served)];
    expect(new Set(ids).size).toBe(2);
    for (const id of ids)
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/);
    expect((await post(served, LIST)).status).toBe(400);
    expect((await post(served, LIST, { 'mcp-session-id': 'unknown' })).status).toBe(404);
  });

  it('S7: is one of few', async () => {
    const served = await serve({ loop: { sessions: { perActor: 1 } } });
    await opened(served);
    expect((await post(served, INITIALIZE)).status).toBe(429);
    expect((await post(served, INITIALIZE, { authorization: 'Bearer bob' })).status).toBe(200);
  });

  it('S7: is closed when it was idle for long', async () => {
    const served = await serve({ loop: { sessions: { idleMs: 200 } } });
    const session = await opened(served);
    let status = 200;
    for (let turn = 0; turn < 100 && status === 200; turn += 1) {
      await new Promise((resolve) => setTimeout(resolve, 400));
      const listing = await post(served, LIST, { 'mcp-session-id': session });
      await listing.text();
      ({ status } = listing);
    }
    expect(status).toBe(404);
  });

  it('is over once its client has deleted it', async () => {
    const served = await serve();
    const session = await opened(served);
    const headers = { authorization: 'Bearer alice', 'mcp-session-id': session };
    expect((await fetch(`${served.url}/mcp`, { method: 'DELETE', headers })).status).toBe(200);
    expect((await post(served, LIST, { 'mcp-session-id': session })).status).toBe(404);
  });

  it('is over once the token describes its actor otherwise, so that rights which were taken away are gone at once', async () => {
    let roles = ['manager'];
    const served = await serve({
      server: { verifier: { verify: () => ({ actor: { id: 'mia', roles }, tenant: 'acme' }) } },
    });
    const session = await opened(served);
    expect(await (await post(served, LIST, { 'mcp-session-id': session })).text()).toContain(
      'notes__manage',
    );
    roles = ['clerk'];
    expect((await post(served, LIST, { 'mcp-session-id': session })).status).toBe(404);
    const modernList = () =>
      post(served, modern('tools/list'), { ...MODERN, 'mcp-method': 'tools/list' });
    expect(await (await modernList()).text()).not.toContain('notes__manage');
    roles = ['manager'];
    expect(await (await modernList()).text()).toContain('notes__manage');
  });

  it('answers the call that ends it, and is gone with the next', async () => {
    const client = await connect(await serve(), { era: '2025' });
    const refused = async () =>
      (
        (await client.callTool({ name: 'notes__manage' }).catch((thrown: unknown) => thrown)) as {
          code?: number;
        }
      ).code;
    expect([await refused(), await refused(), await refused()]).toEqual([
      -32_602, -32_602, -32_602,
    ]);
    await expect(client.callTool({ name: 'notes__count' })).rejects.toThrow(/Session not found/);
  });
});

describe('a request of the era of 2026', () => {
  it.each([
    ['a method in its header that is not its own', { 'mcp-method': 'tools/list' }, -32_020],
    ['the name of another tool in its header', { 'mcp-name': 'notes__find' }, -32_020],
    ['a revision that does not exist', { 'mcp-protocol-version': '2099-01-01' }, -32_020],
  ])('S8: is refused with %s', async (_, headers, code) => {
    const own = { 'mcp-method': 'tools/call', 'mcp-name': 'notes__count' };
    const answer = await post(await serve(), modern('tools/call', { name: 'notes__count' }), {
      ...MODERN,
      ...own,
      ...headers,
    });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ error: { code } });
  });

  it('S17: is one request, not a batch of them', async () => {
    const answer = await post(await serve(), [modern('tools/list')], {
      ...MODERN,
      'mcp-method': 'tools/list',
    });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ error: { code: -32_600 } });
  });

  it.each([{ ...LIST }, modern('tools/list')])(
    'S17: is refused in a batch of more than a hundred, before the SDK reads all of it',
    async (message) => {
      const answer = await post(
        await serve(),
        Array.from({ length: 101 }, () => message),
      );
      expect([answer.status, await answer.json()]).toEqual([
        400,
        expect.objectContaining({ error: expect.objectContaining({ code: -32_600 }) }),
      ]);
    },
  );

  it('S15: is told the same tools on every connection, for its caller alone', async () => {
    const served = await serve();
    const body = async (authorization: string) => {
      const answer = await post(served, modern('tools/list'), {
        ...MODERN,
        'mcp-method': 'tools/list',
        authorization,
      });
      return (await answer.json()) as { result: { cacheScope: string; tools: object[] } };
    };
    const [first, second, ofMia] = [
      await body('Bearer alice'),
      await body('Bearer alice'),
      await body('Bearer mia'),
    ];
    expect(first).toEqual(second);
    expect(first.result.cacheScope).toBe('private');
    expect(ofMia.result.tools).toHaveLength(first.result.tools.length + 1);
  });
});

describe('a body', () => {
  it.each(['express', 'fastify'] as const)(
    'S17: that is too large, no JSON or of another type is refused (%s)',
    async (platform) => {
      const served = await serve({ platform });
      const large = JSON.stringify({ ...LIST, params: { filler: 'x'.repeat(2_000_000) } });
      expect((await post(served, large)).status).toBe(413);
      expect((await post(served, '{"jsonrpc":')).status).toBe(400);
      expect([400, 415]).toContain(
        (await post(served, INITIALIZE, { 'content-type': 'text/plain' })).status,
      );
    },
  );

  it('S17: is read and bounded by the server itself where Nest parses none', async () => {
    const served = await serve({ bodyParser: false });
    expect((await post(served, INITIALIZE)).status).toBe(200);
    expect(
      (await post(served, modern('tools/list'), { ...MODERN, 'mcp-method': 'tools/list' })).status,
    ).toBe(200);
    expect((await post(served, '{"jsonrpc":')).status).toBe(400);
    expect((await post(served, INITIALIZE, { 'content-type': 'text/plain' })).status).toBe(415);
    expect((await post(served, 'x'.repeat(5_000_000))).status).toBe(413);
  });

  it.each(ERAS)('S14: has arguments that are checked like those of a model (%s)', async (era) => {
    const client = await connect(await serve(), { era });
    for (const args of [{ id: { deep: [] } }, { id: 'x', actor: 'bob' }, {}])
      expect((await client.callTool({ name: 'notes__read', arguments: args })).isError).toBe(true);
  });
});
