// A server of the official SDK over standard input and output. It tells its arguments and its
// environment, floods, or ends.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const told = (value) => ({ content: [{ type: 'text', text: JSON.stringify(value) }] });

serveStdio(() => {
  const server = new McpServer({ name: 'process', version: '1' });
  server.registerTool('environment', { description: 'Tells the environment.' }, () =>
    told(process.env),
  );
  server.registerTool('arguments', { description: 'Tells the arguments.' }, () =>
    told(process.argv.slice(2)),
  );
  server.registerTool(
    'echo',
    { description: 'Repeats.', inputSchema: z.object({ text: z.string() }) },
    ({ text }) => told(text),
  );
  server.registerTool('flood', { description: 'Floods.' }, () => told('x'.repeat(100 * 1_048_576)));
  server.registerTool('end', { description: 'Ends.' }, () => process.exit(1));
  return server;
});
