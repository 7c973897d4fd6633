import { fromReadError } from './from-provider-error.js';

/** How long the end of a body may take to come, in milliseconds, once the answer in it is complete. */
const DRAIN_MS = 250;

/** A response's bytes, read one network read at a time, only when asked for. Aborting the signal closes the socket at once, whoever waits. */
export class ResponseBody {
  private readonly reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(
    body: ReadableStream<Uint8Array> | null,
    private readonly signal: AbortSignal,
  ) {
    this.reader = body?.getReader();
    this.signal.addEventListener('abort', this.close, { once: true });
    if (this.signal.aborted) this.close();
  }

  /** Undefined at the end, and when the signal was aborted. */
  async read(): Promise<Uint8Array | undefined> {
    try {
      return (await this.reader?.read())?.value;
    } catch (error) {
      if (this.signal.aborted) return undefined;
      throw fromReadError(error);
    }
  }

  /** Reads to the end, so that the connection can serve the next request. A server that never ends its body loses it instead. */
  async drain(): Promise<void> {
    const timer = setTimeout(this.close, DRAIN_MS);
    try {
      while ((await this.reader?.read())?.done === false);
    } catch {
      // The answer was complete before the connection broke.
    } finally {
      clearTimeout(timer);
    }
  }

  readonly close = (): void => {
    this.signal.removeEventListener('abort', this.close);
    this.reader?.cancel().catch(() => undefined);
  };
}
