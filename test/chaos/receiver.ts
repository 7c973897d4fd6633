import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { json } from 'node:stream/consumers';

/** What somebody wants done. */
export interface Delivery {
  readonly place: string;
  readonly tenant: string;
  /** Under which a second delivery is known again. */
  readonly key?: string;
}

/**
 * The world outside, as a payment provider is: it performs what it is told, and what has a key it
 * has performed already only once.
 */
export class Receiver {
  /** What it did, in order. */
  readonly performed: Delivery[] = [];
  /** How often it was told. */
  deliveries = 0;
  private readonly known = new Set<string>();

  private constructor(
    private readonly server: Server,
    private readonly random: () => number,
  ) {}

  static async open(random: () => number): Promise<Receiver> {
    const server = createServer();
    const receiver = new Receiver(server, random);
    server.on('request', (request, response) => {
      void receiver.take(request).then(
        () => response.end('{}'),
        () => response.destroy(),
      );
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/`;
  }

  close(): void {
    this.server.closeAllConnections();
    this.server.close();
  }

  /** It takes its time before and after, so that whoever asks may be gone meanwhile. */
  private async take(request: IncomingMessage): Promise<void> {
    const delivery = (await json(request)) as Delivery;
    await wait(this.random() * 10);
    this.deliveries += 1;
    if (delivery.key === undefined || !this.known.has(delivery.key)) this.performed.push(delivery);
    if (delivery.key !== undefined) this.known.add(delivery.key);
    await wait(this.random() < 0.05 ? 200 : this.random() * 10);
  }
}
