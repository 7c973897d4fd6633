import { setTimeout as wait } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { Client, escapeIdentifier } from 'pg';

const AGAIN_MS = 1_000;

type Heard = (payload: string) => void;

/** Hears notifications over one connection of its own, made when somebody listens first, and made again when it is lost. What is said meanwhile is not heard. */
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
    return async () => {
      listeners.delete(heard);
      if (listeners.size > 0) return;
      this.channels.delete(channel);
      if (!this.isClosed) await (await this.connected()).query(`unlisten ${escapeIdentifier(channel)}`);
    };
  }

  async close(): Promise<void> {
    this.isClosed = true;
    const client = await this.connecting?.catch(() => undefined);
    await client?.end();
  }

  private connected(): Promise<Client> {
    this.connecting ??= this.connect().catch((error: unknown) => {
      this.connecting = undefined;
      throw error;
    });
    return this.connecting;
  }

  private async connect(): Promise<Client> {
    const client = new Client({ connectionString: this.url, keepAlive: true, application_name: 'toolloop listener' });
    let isLost = false;
    const lose = (): void => {
      if (isLost) return;
      isLost = true;
      this.connecting = undefined;
      if (!this.isClosed) void this.reconnect();
    };
    client.on('error', lose);
    client.on('notification', ({ channel, payload }) => this.channels.get(channel)?.forEach((heard) => heard(payload ?? '')));
    await client.connect();
    client.on('end', lose);
    for (const channel of this.channels.keys()) await client.query(`listen ${escapeIdentifier(channel)}`);
    return client;
  }

  /** Listeners are told nothing of it, so whoever listens looks for itself from time to time. */
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
