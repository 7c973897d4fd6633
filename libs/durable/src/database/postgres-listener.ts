import { setTimeout as wait } from 'node:timers/promises';
import { Logger } from '@toolloop/core/internal';
import { Client, escapeIdentifier } from 'pg';

/**
 * Hears notifications over one connection of its own, made for the first listener, and made again
 * when it is lost. What is said meanwhile is not heard.
 */
export class PostgresListener {
  private readonly logger = new Logger('DurableDatabase');
  private readonly channels = new Map<string, Set<Heard>>();
  private connecting: Promise<Client> | undefined;
  private isClosed = false;

  constructor(private readonly url: string) {}

  async listen(channel: string, heard: Heard): Promise<() => Promise<void>> {
    const listeners = this.channels.get(channel) ?? new Set();
    this.channels.set(channel, listeners.add(heard));
    const client = await this.connected();
    await client.query(`listen ${escapeIdentifier(channel)}`);
    return () => {
      listeners.delete(heard);
      if (listeners.size === 0) this.forget(channel);
      // nothing waits for the server: what it still says has no one who hears it
      return Promise.resolve();
    };
  }

  async close(): Promise<void> {
    this.isClosed = true;
    const ended = this.connecting?.then((client) => client.end()).catch(() => undefined);
    // a connection that is gone never says that it has ended
    await Promise.race([ended, wait(GIVE_UP_MS, undefined, { ref: false })]);
  }

  private forget(channel: string): void {
    this.channels.delete(channel);
    if (this.isClosed) return;
    const unlisten = async (): Promise<unknown> =>
      (await this.connected()).query(`unlisten ${escapeIdentifier(channel)}`);
    unlisten().catch(() => undefined);
  }

  private connected(): Promise<Client> {
    this.connecting ??= this.connect().catch((error: unknown) => {
      this.connecting = undefined;
      throw error;
    });
    return this.connecting;
  }

  private async connect(): Promise<Client> {
    const client = new Client({
      connectionString: this.url,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      query_timeout: LONGEST_LISTEN_MS,
      connectionTimeoutMillis: LONGEST_LISTEN_MS,
      application_name: 'toolloop listener',
    });
    let isLost = false;
    const lose = (): void => {
      if (isLost) return;
      isLost = true;
      this.connecting = undefined;
      if (!this.isClosed) void this.reconnect();
    };
    client.on('error', lose);
    client.on('notification', ({ channel, payload }) =>
      this.channels.get(channel)?.forEach((heard) => heard(payload ?? '')),
    );
    await client.connect();
    client.on('end', lose);
    for (const channel of this.channels.keys())
      await client.query(`listen ${escapeIdentifier(channel)}`);
    return client;
  }

  /** Listeners are told nothing of it, so each of them looks for itself from time to time. */
  private async reconnect(): Promise<void> {
    this.logger.warn('The connection for notifications was lost; reconnecting.');
    while (!this.isClosed) {
      await wait(AGAIN_MS, undefined, { ref: false });
      try {
        if (!this.isClosed) await this.connected();
        return;
      } catch {
        // the server is not back yet
      }
    }
  }
}

/** The silence after which a connection that only listens is asked if it is still there. */
export const KEEP_ALIVE_MS = 10_000;
/** The milliseconds in which something that is over, such as a transaction, ends by itself. */
export const GIVE_UP_MS = 1_000;

const AGAIN_MS = 1_000;
const LONGEST_LISTEN_MS = 5_000;

type Heard = (payload: string) => void;
