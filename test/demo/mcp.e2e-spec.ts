import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { ask, closeDesks, serve, type ServedDesk } from './served-desk.js';

const ERAS = ['2026', '2025'] as const;

let desk: ServedDesk;
const clients: Client[] = [];

beforeEach(async () => {
  desk = await serve();
});
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
  await closeDesks();
});

async function connect(user: string, path: string, era: (typeof ERAS)[number]): Promise<Client> {
  const client = new Client(
    { name: 'spec', version: '1' },
    { versionNegotiation: { mode: era === '2026' ? { pin: '2026-07-28' } : 'legacy' } },
  );
  clients.push(client);
  const headers = { authorization: `Bearer demo-${user}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(path, desk.url), { requestInit: { headers } }),
  );
  return client;
}

const names = async (client: Client): Promise<string[]> =>
  (await client.listTools()).tools.map(({ name }) => name);
const call = async (
  client: Client,
  name: string,
  args: Record<string, unknown> = {},
): Promise<string> => JSON.stringify((await client.callTool({ name, arguments: args })).content);

const track = async (user: string, era: (typeof ERAS)[number]): Promise<string> =>
  call(await connect(user, '/mcp', era), 'mcp__carrier__track_shipment', { tracking: 'T-1024' });

describe.each(ERAS)('an MCP client of the desk, in the era of %s,', (era) => {
  it('has the tools of its user, and those of the order that it has found', async () => {
    const client = await connect('alice', `/mcp/found-${era}`, era);
    expect(await names(client)).not.toContain('catalog__update');
    expect(await names(await connect('mia', '/mcp', era))).toContain('catalog__update');
    await call(client, 'orders__findOrder', { orderId: 'o-1024' });
    expect(await names(client)).toContain('order_o-1024_cancel');
    expect(await names(await connect('alice', `/mcp/other-${era}`, era))).not.toContain(
      'order_o-1024_cancel',
    );
  });

  it('sees nothing of the other tenant', async () => {
    const found = await call(await connect('bob', '/mcp', era), 'orders__findOrder', {
      orderId: 'o-1024',
    });
    expect(found).not.toContain('acme');
  });

  it('follows a shipment by the tool of the carrier, with the account of its own tenant', async () => {
    expect(await track('alice', era)).toContain('Shipment T-1024 of acme was picked up.');
    expect(await track('bob', era)).toContain('Shipment T-1024 of globex was picked up.');
  });

  it('mails nothing unasked, also with its first call and the rights of a manager: it may have read anything elsewhere', async () => {
    for (const user of ['alice', 'bob', 'mia'])
      expect(
        await call(await connect(user, '/mcp', era), 'orders__sendReceipt', { orderId: 'o-1024' }),
      ).toContain('waits for an approval');
  });

  it('waits for a manager, who decides in the desk, and then fetches the result', async () => {
    const client = await connect('alice', `/mcp/cancel-${era}`, era);
    await call(client, 'orders__findOrder', { orderId: 'o-1024' });
    const { _meta: meta } = await client.callTool({ name: 'order_o-1024_cancel' });
    const { approvalId, url } = (meta ?? {})['toolloop/waiting'] as {
      approvalId: string;
      url: string;
    };
    expect(url).toBe(`${desk.url}/mcp/approve/${approvalId}`);
    expect(
      (await ask(desk, 'alice', { decision: 'approve' }, `/approvals/${approvalId}`)).status,
    ).toBe(403);
    const say = (credential: string, decision: string) =>
      fetch(url, {
        method: 'POST',
        headers: { origin: desk.url },
        body: new URLSearchParams({ credential, decision }),
      });
    expect((await say('demo-mia', 'approve')).status).toBe(401);
    expect((await say('alice at the desk', 'approve')).status).toBe(401);
    expect((await say('mia at the desk', 'approve')).status).toBe(200);
    expect(await call(client, 'order_o-1024_cancel')).not.toContain('waits for an approval');
  });
});
