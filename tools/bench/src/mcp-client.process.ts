import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

/**
 * Plays clients of MCP servers, in a process of its own, so that their CPU time is not counted. Its
 * parent sends what to do; it sends back how many calls had the right result, and ends with its
 * parent.
 */
interface Order {
  readonly url: string;
  readonly era: string;
  readonly calls: number;
  readonly inFlight: number;
}

const NAME = 'bench__plain';
const clients = new Map<string, Promise<Client>>();

process.on('message', (order: Order) => {
  void fulfil(order).then(
    (right) => process.send?.(right),
    (error: unknown) => process.send?.(String(error)),
  );
});
process.on('disconnect', () => process.exit());

async function fulfil({ url, era, calls, inFlight }: Order): Promise<number> {
  const client = await clientOf(url, era);
  let next = 0;
  let right = 0;
  const call = async (): Promise<void> => {
    for (let mine = next++; mine < calls; mine = next++) {
      const limit = 1 + (mine % 50);
      const { content } = await client.callTool({
        name: NAME,
        arguments: { name: 'John Smith', limit, active: true },
      });
      const [first] = content;
      if (first?.type === 'text' && first.text === `{"found":${limit}}`) right += 1;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, call));
  return right;
}

function clientOf(url: string, era: string): Promise<Client> {
  const key = `${era} ${url}`;
  const known = clients.get(key) ?? connect(url, era);
  clients.set(key, known);
  return known;
}

async function connect(url: string, era: string): Promise<Client> {
  const mode = era === '2025-11-25' ? 'legacy' : { pin: era };
  const client = new Client({ name: 'bench', version: '1.0.0' }, { versionNegotiation: { mode } });
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), {
      requestInit: { headers: { authorization: 'Bearer alice' } },
    }),
  );
  await client.listTools();
  return client;
}
