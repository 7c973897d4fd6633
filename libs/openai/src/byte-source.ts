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
