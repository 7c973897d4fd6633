import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What the provider answers with: words, or one call. */
export type ProviderAnswer = string | { readonly name: string; readonly arguments: string };

/**
 * A server that speaks OpenAI's chat completions, plays a script and keeps every request as it came
 * over the wire.
 */
export interface FakeProvider {
  readonly baseURL: string;
  readonly bodies: readonly string[];
  readonly headers: readonly IncomingMessage['headers'][];
  close(): Promise<void>;
}

export async function fakeProvider(script: readonly ProviderAnswer[]): Promise<FakeProvider> {
  const bodies: string[] = [];
  const headers: IncomingMessage['headers'][] = [];
  const answerTo = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const answer = script[bodies.push(await readAll(request)) - 1];
    headers.push(request.headers);
    if (request.url !== '/v1/chat/completions' || answer === undefined)
      response.writeHead(404).end();
    else stream(response, answer, bodies.length);
  };
  const server = createServer((request, response) => void answerTo(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return { baseURL: `http://127.0.0.1:${port}/v1`, bodies, headers, close };
}

async function readAll(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

function stream(response: ServerResponse, answer: ProviderAnswer, number: number): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const deltas = typeof answer === 'string' ? textDeltas(answer) : callDeltas(answer, number);
  const finish = { delta: {}, finish_reason: typeof answer === 'string' ? 'stop' : 'tool_calls' };
  for (const choice of [...deltas.map((delta) => ({ delta, finish_reason: null })), finish])
    send(response, number, [{ index: 0, ...choice }]);
  send(response, number, [], { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 });
  response.end('data: [DONE]\n\n');
}

function send(
  response: ServerResponse,
  number: number,
  choices: readonly object[],
  usage?: object,
): void {
  const chunk = {
    id: `chatcmpl-${number}`,
    object: 'chat.completion.chunk',
    created: 1,
    model: 'fake',
    choices,
    ...(usage && { usage }),
  };
  response.write(`data: ${JSON.stringify(chunk)}\n\n`);
}

function textDeltas(words: string): object[] {
  return [
    { role: 'assistant', content: '' },
    ...words.split(/(?<= )/).map((content) => ({ content })),
  ];
}

/** The arguments arrive in pieces, as they do from providers. */
function callDeltas(
  call: { readonly name: string; readonly arguments: string },
  number: number,
): object[] {
  const half = Math.ceil(call.arguments.length / 2);
  const pieces = [call.arguments.slice(0, half), call.arguments.slice(half)];
  const opening = {
    index: 0,
    id: `call_abc${number}`,
    type: 'function',
    function: { name: call.name, arguments: '' },
  };
  return [
    { role: 'assistant', content: null, tool_calls: [opening] },
    ...pieces.map((piece) => ({ tool_calls: [{ index: 0, function: { arguments: piece } }] })),
  ];
}
