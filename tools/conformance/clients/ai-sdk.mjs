import { createMCPClient } from '@ai-sdk/mcp';

/** The MCP client of the AI SDK, which agrees on the revision with the server by itself. */
export const eras = ['its own'];

export async function visit({ url, headers, tool, args }) {
  const client = await createMCPClient({ transport: { type: 'http', url, headers } });
  const tools = await client.tools();
  const { content } = await tools[tool].execute(args, { toolCallId: 'call_1', messages: [] });
  await client.close();
  return { tools: Object.keys(tools), content };
}
