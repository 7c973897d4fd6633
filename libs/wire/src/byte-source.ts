/** Bytes of a body, one network read at a time and only when asked for. */
export interface ByteSource {
  /** Undefined at the end. Rejects when the connection breaks. */
  read(): Promise<Uint8Array | undefined>;
  /** Gives up what was not read, with the socket it would have come from. */
  close(): void;
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
