import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';

const WORDS = 40;
const PAUSE_MS = 50;

/**
 * What a provider does wrong with a request: it refuses, it fails, or it breaks off in the middle
 * of its answer.
 */
export type ProviderFault = 'refuses' | 'fails' | 'breaks off';

/**
 * A provider of chat completions that calls a tool of the desk once and then speaks, a word every
 * 50 ms. It ends with its process.
 *
 * @param fault is asked for each request what goes wrong with it
 */
export async function slowProvider(
  fault: () => ProviderFault | undefined = () => undefined,
): Promise<{ readonly baseURL: string; readonly server: Server }> {
  const server = createServer(
    (request, response) => void answer(request, response, fault()).catch(() => response.destroy()),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { baseURL: `http://127.0.0.1:${port}/v1`, server };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  fault: ProviderFault | undefined,
): Promise<void> {
  let body = '';
  for await (const chunk of request) body += String(chunk);
  if (fault === 'refuses' || fault === 'fails') return refuse(response, fault);
  const breaksAt = fault === 'breaks off' ? WORDS / 2 : undefined;
  const hasResult = body.includes('"role":"tool"');
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (choices: readonly object[], more: object = {}): boolean =>
    response.write(
      `data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'slow', choices, ...more })}\n\n`,
    );
  if (hasResult) {
    for (let word = 0; word < WORDS && !response.destroyed; word += 1) {
      if (word === breaksAt) return void response.destroy();
      send([{ index: 0, delta: { content: `word${word} ` }, finish_reason: null }]);
      await wait(PAUSE_MS);
    }
  } else {
    const call = {
      index: 0,
      id: 'call_1',
      type: 'function',
      function: { name: 'crm__searchCustomers', arguments: '{"name":"a"}' },
    };
    send([
      {
        index: 0,
        delta: { role: 'assistant', content: null, tool_calls: [call] },
        finish_reason: null,
      },
    ]);
  }
  send([{ index: 0, delta: {}, finish_reason: hasResult ? 'stop' : 'tool_calls' }]);
  send([], { usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 } });
  response.end('data: [DONE]\n\n');
}

function refuse(response: ServerResponse, fault: ProviderFault): void {
  response.writeHead(fault === 'refuses' ? 429 : 500, {
    'content-type': 'application/json',
    'retry-after-ms': '50',
  });
  response.end('{"error":{"message":"Not now."}}');
}
