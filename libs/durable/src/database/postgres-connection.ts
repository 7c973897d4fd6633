import { Socket } from 'node:net';
import { Client, type ClientConfig } from 'pg';

/**
 * A connection of a pool whose socket is known, so that it can be cut while it is still being
 * opened: `Client.end` says goodbye and waits for an answer then, over a way that may be gone.
 */
export class PostgresConnection extends Client {
  /** The time at which it was begun, on the clock of `performance`. */
  readonly begunAt = performance.now();
  /** True once its session has its settings, and the pool lends it. */
  isReady = false;
  private readonly socket: Socket;

  constructor(config?: ClientConfig) {
    const socket = new Socket();
    // a pool keeps the string from being listed, since it holds the password
    super({ ...config, connectionString: config?.connectionString, stream: () => socket });
    this.socket = socket;
  }

  /** Ends it at once: its statement, or its opening, fails by that. */
  cut(): void {
    this.socket.destroy();
  }
}
