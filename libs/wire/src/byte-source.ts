import type { Readable } from 'node:stream';

/** The bytes of a body, one network read at a time and only when asked for. */
export interface ByteSource {
  /** Reads the next bytes; undefined at the end. A promise where they have to be waited for; it rejects when the connection breaks. */
  read(): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /** `true` once all of the body is here, though it may not be read yet. */
  readonly isComplete?: boolean;
  /** Discards the rest of the body, and its socket. */
  close(): void;
}

/** The bytes of a Node stream, without a web stream around it. Bytes that are not asked for stay in the socket. */
export class NodeBytes implements ByteSource {
  private waiting: { readonly resolve: (bytes: Uint8Array | undefined) => void; readonly reject: (error: Error) => void } | undefined;
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
    stream.on('error', (error: Error) => this.end(error.message === 'aborted' ? new Error('other side closed') : error));
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
