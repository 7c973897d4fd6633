import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

/** The official SDK of the second major. */
export const eras = ['2025-11-25', '2026-07-28'];

export async function visit({ url, headers, tool, args, era }) {
  const mode = era === '2025-11-25' ? 'legacy' : { pin: era };
  const client = new Client(
    { name: 'visitor', version: '1.0.0' },
    { versionNegotiation: { mode } },
  );
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }),
  );
  const { tools } = await client.listTools();
  const { content } = await client.callTool({ name: tool, arguments: args });
  await client.close();
  return { tools: tools.map(({ name }) => name), content };
}
