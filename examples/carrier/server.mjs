// A carrier, as an MCP server over standard input and output: the desk imports its one tool. It
// finds whose account asks in CARRIER_TOKEN.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const STAGES = ['was picked up', 'is on its way', 'is out for delivery', 'was delivered'];

serveStdio(() => {
  const server = new McpServer({ name: 'carrier', version: '1.0.0' });
  const description = 'Follows a shipment by its tracking number.';
  const inputSchema = z.strictObject({
    tracking: z
      .string()
      .regex(/^T-\d{4}$/)
      .describe('The tracking number, such as T-1024'),
  });
  server.registerTool('track_shipment', { description, inputSchema }, ({ tracking }) => {
    const account = process.env.CARRIER_TOKEN?.replace('carrier-account-', '');
    if (account === undefined)
      return { isError: true, content: [{ type: 'text', text: 'The account is unknown.' }] };
    const stage = STAGES[Number(tracking.slice(2)) % STAGES.length];
    return { content: [{ type: 'text', text: `Shipment ${tracking} of ${account} ${stage}.` }] };
  });
  return server;
});
