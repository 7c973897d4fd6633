import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { between } from './random.js';

/**
 * The delays of what a worker sends, with their chances: most of it goes on at once, and some comes
 * later than a store waits for one attempt.
 */
const DELAYS: readonly (readonly [chance: number, least: number, most: number])[] = [
  [0.001, 4_200, 6_000],
  [0.005, 500, 2_000],
  [0.05, 5, 120],
];

/** A way to the server that holds statements up at random. */
export class DelayedWay {
  /** The number of times that something was held up. */
  delays = 0;

  private constructor(
    private readonly server: Server,
    private readonly sockets: ReadonlySet<Socket>,
    readonly port: number,
  ) {}

  static async to(host: string, port: number, random: () => number): Promise<DelayedWay> {
    const sockets = new Set<Socket>();
    const server = createServer((client) => {
      const upstream = connect(port, host);
      for (const [one, other] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        sockets.add(one);
        one.on('error', () => undefined);
        one.on('close', () => {
          sockets.delete(one);
          other.destroy();
        });
      }
      upstream.on('data', (chunk) => client.write(chunk));
      const line = new Line(
        (chunk) => upstream.write(chunk),
        random,
        () => (way.delays += 1),
      );
      client.on('data', (chunk: Buffer) => line.send(chunk));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const way = new DelayedWay(server, sockets, (server.address() as AddressInfo).port);
    return way;
  }

  close(): void {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
  }
}

/** What is sent over one connection, in its order. */
class Line {
  private sent: Promise<void> = Promise.resolve();

  constructor(
    private readonly write: (chunk: Buffer) => unknown,
    private readonly random: () => number,
    private readonly delayed: () => void,
  ) {}

  send(chunk: Buffer): void {
    const ms = this.delay();
    if (ms > 0) this.delayed();
    this.sent = this.sent
      .then(() => (ms > 0 ? new Promise<void>((resolve) => setTimeout(resolve, ms)) : undefined))
      .then(() => void this.write(chunk));
  }

  private delay(): number {
    let chance = this.random();
    for (const [share, least, most] of DELAYS) {
      if (chance < share) return between(this.random, least, most);
      chance -= share;
    }
    return 0;
  }
}
