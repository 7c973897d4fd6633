import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { LoopEvent } from '@toolloop/protocol';
import type { EventEncoder } from '@toolloop/ui-stream';

/** The times of a stream, in milliseconds. */
export interface StreamTimes {
  /** After a silence of so long a comment is sent. */
  readonly keepAliveMs: number;
  /** A reader whose socket takes nothing for so long is cut off. */
  readonly readerStalledMs: number;
}

/** A response of Express or a reply of Fastify. */
export interface AnyResponse {
  readonly raw?: ServerResponse;
  readonly hijack?: () => void;
}

/**
 * Sends events to one reader, no faster than its socket takes them: the next event is asked for
 * once the one before has left, so that what produces them waits too. Resolves once the stream has
 * ended, on whichever side. Before the first event an error rejects, so that it can still be
 * answered with its status; what is silent for longer than `keepAliveMs` before it, such as a run
 * that is queued, has begun by then.
 */
export async function sendEvents(
  events: AsyncIterable<LoopEvent>,
  encoder: EventEncoder,
  response: AnyResponse & ServerResponse,
  times: StreamTimes,
): Promise<void> {
  const iterator = events[Symbol.asyncIterator]();
  const socket = response.raw ?? response;
  const reader = new StreamReader(response, times, encoder);
  // A reader that has left asks for nothing more: what waits for the next event is told at once.
  socket.once('close', () => void iterator.return?.());
  try {
    const first = await iterator.next();
    reader.begin();
    for (
      let next = first;
      !next.done && (await reader.write(encoder.encode(next.value)));
      next = await iterator.next()
    );
    if (reader.isThere) await reader.write(encoder.end());
  } catch (error) {
    if (!reader.hasBegun) throw error;
    socket.destroy(); // a stream that ends early is no end: the client connects again
  } finally {
    reader.end();
    await iterator.return?.();
  }
}

/** The socket of one reader. */
class StreamReader {
  private readonly socket: ServerResponse;
  private readonly timer: NodeJS.Timeout | undefined;
  private isBegun = false;

  constructor(
    private readonly response: AnyResponse & ServerResponse,
    private readonly times: StreamTimes,
    private readonly encoder: Pick<EventEncoder, 'headers' | 'keepAlive'>,
  ) {
    this.socket = response.raw ?? response;
    if (encoder.keepAlive === '' || !(times.keepAliveMs > 0)) return;
    this.timer = setInterval(() => this.remind(), times.keepAliveMs);
    this.timer.unref();
    this.socket.once('close', () => clearInterval(this.timer));
  }

  get hasBegun(): boolean {
    return this.isBegun;
  }

  get isThere(): boolean {
    return !this.socket.destroyed && !this.socket.writableEnded;
  }

  /** Sends the headers, once. */
  begin(): void {
    if (this.isBegun) return;
    this.isBegun = true;
    this.response.hijack?.();
    this.socket.socket?.setNoDelay(true);
    this.socket.writeHead(200, { ...this.encoder.headers });
    this.socket.flushHeaders();
  }

  /** Resolves to whether the reader is still there, once its socket takes more. */
  async write(text: string): Promise<boolean> {
    if (!this.isThere) return false;
    if (text === '') return true;
    this.timer?.refresh();
    if (!this.socket.write(text)) await this.drained();
    return this.isThere;
  }

  end(): void {
    clearInterval(this.timer);
    if (this.isBegun && this.isThere) this.socket.end();
  }

  private remind(): void {
    if (!this.isThere || this.socket.writableNeedDrain) return;
    this.begin();
    this.socket.write(this.encoder.keepAlive);
  }

  private async drained(): Promise<void> {
    const over = new AbortController();
    const { signal } = over;
    const stalled = setTimeout(() => this.socket.destroy(), this.times.readerStalledMs);
    await Promise.race([
      once(this.socket, 'drain', { signal }),
      once(this.socket, 'close', { signal }),
    ]).catch(() => undefined);
    clearTimeout(stalled);
    over.abort();
  }
}
