import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { LanguageModel } from '@toolloop/protocol';

export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export type Answer = (response: ServerResponse, request: ReceivedRequest) => void;

/**
 * A server on this machine that plays a provider: it answers request after request from the list,
 * the last answer again and again.
 */
export class LocalProvider implements AsyncDisposable {
  readonly requests: ReceivedRequest[] = [];
  readonly sockets = new Set<Socket>();
  private isWarming = false;

  private constructor(private readonly server: ReturnType<typeof createServer>) {}

  static async start(...script: readonly Answer[]): Promise<LocalProvider> {
    const server = createServer();
    const provider = new LocalProvider(server);
    server.on('connection', (socket) => {
      provider.sockets.add(socket);
      // Whoever is played here may be left in the middle of a word.
      socket.on('error', () => undefined);
    });
    server.on('request', (request, response) => void provider.serve(request, response, script));
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    return provider;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  get baseURL(): string {
    return `${this.origin}/v1`;
  }

  /** Resolves when every connection is closed. */
  async untilClosed(): Promise<void> {
    for (const socket of this.sockets) {
      // `once` of node:events would reject for a connection that the other side reset, which is
      // closed just as well.
      if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
    }
  }

  /**
   * Lets a model make its first request, as if it had been made before the test: the provider
   * refuses it, and forgets it.
   */
  async warm(model: LanguageModel): Promise<void> {
    this.isWarming = true;
    const request = { messages: [{ role: 'user', content: 'Hi' }], tools: [] } as const;
    const reading = model.stream(request, new AbortController().signal)[Symbol.asyncIterator]();
    await reading.next().then(
      () => Promise.reject(new Error('The first request was not refused.')),
      () => undefined,
    );
    this.isWarming = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => {
      this.server.close(resolve);
    });
  }

  private async serve(
    request: IncomingMessage,
    response: ServerResponse,
    script: readonly Answer[],
  ): Promise<void> {
    response.on('error', () => undefined);
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    if (this.isWarming)
      return void response.writeHead(400, { 'content-type': 'application/json' }).end('{}');
    const { method = '', url = '', headers } = request;
    const received = { method, path: url, headers, body: Buffer.concat(parts).toString() };
    this.requests.push(received);
    (script[this.requests.length - 1] ?? script.at(-1))?.(response, received);
  }
}

/** Answers with an event stream of these writes and ends it. */
export function streams(...writes: readonly string[]): Answer {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const write of writes) response.write(write);
    response.end();
  };
}

/** Answers with a status and a body. */
export function answers(
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return (response) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
}
