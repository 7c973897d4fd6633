import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server on this machine that plays a web site or an API. */
export class LocalSite implements AsyncDisposable {
  readonly requests: IncomingMessage[] = [];

  private constructor(private readonly server: ReturnType<typeof createServer>) {}

  static async start(answer: RequestListener): Promise<LocalSite> {
    const server = createServer();
    const site = new LocalSite(server);
    server.on('request', (request, response) => {
      site.requests.push(request);
      answer(request, response);
    });
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    return site;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => {
      this.server.close(resolve);
    });
  }
}

/** Answers every request with this. */
export function serves(
  type: string,
  body: string | Buffer,
  headers: Record<string, string> = {},
): RequestListener {
  return (_request, response) =>
    response.writeHead(200, { 'content-type': type, ...headers }).end(body);
}

/** Sends a response the same piece again and again, as fast as it is taken, until it is closed. */
export function flood(response: ServerResponse, piece: Buffer): void {
  const write = () => {
    while (!response.destroyed && response.write(piece)) void 0;
  };
  response.on('drain', write);
  write();
}
