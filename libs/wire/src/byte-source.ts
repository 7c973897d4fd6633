import type { Readable } from 'node:stream';
import { setImmediate } from 'node:timers';

/** The bytes of a body, one network read at a time and only when asked for. */
export interface ByteSource {
  /**
   * Reads the next bytes; undefined at the end. A promise where they have to be waited for; it
   * rejects when the connection breaks.
   */
  read(): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /** `true` once all of the body is here, though it may not be read yet. */
  readonly isComplete?: boolean;
  /** Discards the rest of the body, and its socket. */
  close(): void;
}

/**
 * The bytes of a Node stream, without a web stream around it. Bytes that are not asked for stay in
 * the socket.
 */
export class NodeBytes implements ByteSource {
  private waiting:
    | {
        readonly resolve: (bytes: Uint8Array | undefined) => void;
        readonly reject: (error: Error) => void;
      }
    | undefined;
  private error: Error | undefined;
  private hasEnded = false;
  private left: number;

  /** The body counts as ended behind `most` bytes. */
  constructor(
    private readonly stream: Readable,
    most = Infinity,
  ) {
    this.left = most;
    stream.on('readable', () => this.notify());
    stream.on('end', () => this.end());
    // What Node calls aborted was cut by the server.
    stream.on('error', (error: Error) =>
      this.end(error.message === 'aborted' ? new Error('other side closed') : error),
    );
    stream.on('close', () => this.hasEnded || this.end(new Error('other side closed')));
  }

  get isComplete(): boolean {
    return 'complete' in this.stream && this.stream.complete === true;
  }

  read(): Uint8Array | undefined | Promise<Uint8Array | undefined> {
    const bytes = this.next();
    if (bytes !== undefined || (this.hasEnded && this.error === undefined)) return bytes;
    if (this.error !== undefined) return Promise.reject(this.error);
    return new Promise((resolve, reject) => (this.waiting = { resolve, reject }));
  }

  close(): void {
    if (!this.hasEnded) this.stream.destroy();
  }

  private next(): Uint8Array | undefined {
    const bytes: unknown = this.hasEnded ? null : this.stream.read();
    if (!(bytes instanceof Uint8Array)) return undefined;
    this.left -= bytes.length;
    if (this.left >= 0) return bytes;
    this.close();
    this.end();
    return bytes.subarray(0, bytes.length + this.left);
  }

  private end(error?: Error): void {
    if (!this.hasEnded) this.error = error;
    this.hasEnded = true;
    this.notify();
  }

  private notify(): void {
    const { waiting } = this;
    if (!waiting) return;
    this.waiting = undefined;
    const bytes = this.next();
    if (bytes === undefined && !this.hasEnded) this.waiting = waiting;
    else if (bytes === undefined && this.error !== undefined) waiting.reject(this.error);
    else waiting.resolve(bytes);
  }
}

/** The bytes of a web stream. */
export class WebBytes implements ByteSource {
  private readonly reader: ReadableStreamDefaultReader<Uint8Array>;

  constructor(body: ReadableStream<Uint8Array>) {
    this.reader = body.getReader();
  }

  async read(): Promise<Uint8Array | undefined> {
    return (await this.reader.read()).value;
  }

  close(): void {
    this.reader.cancel().catch(() => undefined);
  }
}

/** The bytes of anything else that can be iterated, such as a Node stream or a generator. */
export class IteratedBytes implements ByteSource {
  private readonly reads: AsyncIterator<Uint8Array>;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.reads = body[Symbol.asyncIterator]();
  }

  async read(): Promise<Uint8Array | undefined> {
    const read = await this.reads.next();
    return read.done === true ? undefined : read.value;
  }

  close(): void {
    this.reads.return?.().catch(() => undefined);
  }
}

/** The milliseconds that the end of a body may take once the answer in it is complete. */
const DRAIN_MS = 250;

/**
 * The bytes of a response, one network read at a time and only when asked for. Its reader closes it
 * when the signal is aborted, also during a read.
 */
export class ResponseBody {
  constructor(
    private readonly bytes: ByteSource | undefined,
    readonly signal?: AbortSignal,
    /** The provider's id of the request. */
    readonly requestId?: string,
  ) {}

  /** `true` once all of it is here, though it may not be read yet. */
  get isComplete(): boolean {
    return this.bytes?.isComplete === true;
  }

  /**
   * Reads the next bytes; undefined at the end. A promise where they have to be waited for; it
   * rejects when the connection breaks.
   */
  read(): Uint8Array | undefined | Promise<Uint8Array | undefined> {
    return this.bytes?.read();
  }

  /**
   * Reads to the end, so that the connection can serve the next request, and waits for the end of
   * the event loop's turn. A server that never ends its body loses its connection instead.
   */
  drain(): Promise<void> {
    const reading = this.bytes?.read();
    return reading === undefined ? turnEnd() : this.drained(reading);
  }

  private async drained(first: Uint8Array | Promise<Uint8Array | undefined>): Promise<void> {
    const timer = this.isComplete ? undefined : setTimeout(this.close, DRAIN_MS);
    try {
      for (let bytes = await first; bytes !== undefined;) bytes = await this.bytes?.read();
    } catch {
      // The answer was complete before the connection broke.
    } finally {
      clearTimeout(timer);
    }
    return turnEnd();
  }

  readonly close = (): void => {
    this.bytes?.close();
  };
}

/** The readers of complete answers that wait for the end of a turn. */
const waiting: (() => void)[] = [];

/**
 * The readers that continue in one turn of the event loop: enough to reuse code and data while a
 * processor has them at hand, and few enough for timers and sockets to come in between.
 */
const MOST_IN_A_TURN = 16;

/**
 * Waits for the end of the event loop's turn, in which the answers of other runs are read as well.
 * The calls of a run and its next request, which follow its answer, are then made for many runs in
 * a row, and the requests are sent together: with 200 runs at once a model call takes a third less
 * CPU than where each run continues by itself. A single run is not held up, since nothing else is
 * to be read in its turn.
 */
function turnEnd(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(endTurn);
  });
}

function endTurn(): void {
  const next = waiting.splice(0, MOST_IN_A_TURN);
  if (waiting.length > 0) setImmediate(endTurn);
  for (const resolve of next) resolve();
}
