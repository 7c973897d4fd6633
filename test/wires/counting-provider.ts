import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { chunk, sse } from '../../libs/openai/test/decode.js';

/**
 * A provider that asks for as many calls of `stock__count` as make the steps that its question
 * names, such as "Take 5 steps." It makes no promise itself.
 */
export async function countingProvider(): Promise<Server> {
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (part: string) => (body += part));
    request.on('end', () => {
      const steps = Number(/Take (\d+) steps/.exec(body)?.[1]);
      const taken = body.split('"tool_call_id"').length;
      const call = {
        index: 0,
        id: `call_${taken}`,
        type: 'function',
        function: { name: 'stock__count', arguments: '{}' },
      };
      const text =
        taken < steps
          ? sse(chunk({ tool_calls: [call] }), chunk({}, 'tool_calls'))
          : sse(chunk({ content: 'Done.' }), chunk({}, 'stop'));
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(text);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
