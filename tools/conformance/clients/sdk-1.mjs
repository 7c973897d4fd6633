import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

/** The official SDK of the first major, whose newest revision is 2025-11-25. */
export const eras = ['2025-11-25'];

export async function visit({ url, headers, tool, args }) {
  const client = new Client({ name: 'visitor', version: '1.0.0' });
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }),
  );
  const { tools } = await client.listTools();
  const { content } = await client.callTool({ name: tool, arguments: args });
  await client.close();
  return { tools: tools.map(({ name }) => name), content };
}
