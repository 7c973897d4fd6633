import { MCPServerStreamableHttp } from '@openai/agents';

/** The MCP client of OpenAI Agents, which agrees on the revision with the server by itself. */
export const eras = ['its own'];

export async function visit({ url, headers, tool, args }) {
  const server = new MCPServerStreamableHttp({ name: 'desk', url, requestInit: { headers } });
  await server.connect();
  const tools = await server.listTools();
  const content = await server.callTool(tool, args);
  await server.close();
  return { tools: tools.map(({ name }) => name), content };
}
