import type { ByteSource } from './byte-source.js';
import { fromReadError } from './from-failure.js';

/** How long the end of a body may take to come, in milliseconds, once the answer in it is complete. */
const DRAIN_MS = 250;

/** A response's bytes, read one network read at a time, only when asked for. Aborting the signal closes the socket at once, whoever waits. */
export class ResponseBody {
  constructor(
    private readonly bytes: ByteSource | undefined,
    private readonly signal?: AbortSignal,
  ) {
    signal?.addEventListener('abort', this.close, { once: true });
    if (signal?.aborted) this.close();
  }

  get isAborted(): boolean {
    return this.signal?.aborted ?? false;
  }

  /** Undefined at the end, and when the signal was aborted. */
  async read(): Promise<Uint8Array | undefined> {
    try {
      return await this.bytes?.read();
    } catch (error) {
      if (this.isAborted) return undefined;
      throw fromReadError(error);
    }
  }

  /** Reads to the end, so that the connection can serve the next request. A server that never ends its body loses it instead. */
  async drain(): Promise<void> {
    const timer = setTimeout(this.close, DRAIN_MS);
    try {
      while ((await this.bytes?.read()) !== undefined);
    } catch {
      // The answer was complete before the connection broke.
    } finally {
      clearTimeout(timer);
    }
  }

  readonly close = (): void => {
    this.signal?.removeEventListener('abort', this.close);
    this.bytes?.close();
  };
}
