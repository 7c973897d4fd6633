import type { Readable } from 'node:stream';
import type { ByteSource } from './byte-source.js';

/** The bytes of a Node stream, without a web stream around it. What is not asked for stays in the socket. */
export class NodeBytes implements ByteSource {
  private wake: (() => void) | undefined;
  private error: Error | undefined;
  private hasEnded = false;
  private left: number;

  /** Behind `most` bytes the body counts as ended. */
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

  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      const bytes = this.next();
      if (bytes !== undefined) return bytes;
      if (this.error !== undefined) throw this.error;
      if (this.hasEnded) return undefined;
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
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
    this.wake?.();
    this.wake = undefined;
  }
}
