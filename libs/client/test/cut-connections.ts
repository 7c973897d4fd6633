import {
  createServer,
  request,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server between a client and the application that cuts connections. */
export interface CuttingProxy {
  readonly url: string;
  /** The requests that came, as method and path. */
  readonly requests: readonly string[];
  close(): Promise<void>;
}

/**
 * Passes everything on, and destroys the connection of each event stream after so many bytes, the
 * next number for each stream; then it lets streams pass.
 */
export async function cutConnections(
  target: string,
  cuts: readonly number[],
): Promise<CuttingProxy> {
  const requests: string[] = [];
  const left = [...cuts];
  const server = createServer((incoming, outgoing) => {
    requests.push(`${incoming.method} ${incoming.url}`);
    passOn(new URL(incoming.url ?? '/', target), incoming, outgoing, (type) =>
      type === 'text/event-stream' ? left.shift() : undefined,
    );
  });
  return { url: await listen(server), requests, close: () => closeServer(server) };
}

export async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}

function passOn(
  url: URL,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  cutOf: (type: string | undefined) => number | undefined,
): void {
  const headers = { ...incoming.headers, host: url.host };
  const passed = request(url, { method: incoming.method, headers }, (answer) => {
    const cut = cutOf(answer.headers['content-type']);
    let sent = 0;
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
    outgoing.flushHeaders();
    answer.on('data', (chunk: Buffer) => {
      const part = cut === undefined ? chunk : chunk.subarray(0, cut - sent);
      sent += chunk.length;
      outgoing.write(part, () => {
        if (cut !== undefined && sent >= cut) outgoing.destroy();
      });
    });
    answer.on('end', () => outgoing.end());
    answer.on('error', () => outgoing.destroy());
  });
  outgoing.on('close', () => passed.destroy());
  passed.on('error', () => outgoing.destroy());
  incoming.pipe(passed);
}
