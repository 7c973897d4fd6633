import { setImmediate as turn } from 'node:timers/promises';
import type { OnProgress } from './progress-report.js';

/** The values of a source: all but the last are its progress. */
export class StreamedValues {
  private last: unknown;
  protected count = 0;

  constructor(private readonly onProgress: OnProgress) {}

  get isFull(): boolean {
    return false;
  }

  get result(): unknown {
    return this.last;
  }

  /**
   * Takes a value. A source that never waits must not keep timers and other runs from their turn.
   */
  async take(value: unknown): Promise<void> {
    if (this.count > 0) await this.onProgress(this.last);
    this.count += 1;
    this.last = value;
    if (this.count % VALUES_IN_A_ROW === 0) await turn();
  }
}

const VALUES_IN_A_ROW = 100;

/** Much more than a model is ever shown. */
const MOST_STREAMED = 8 * 1024 * 1024;

/**
 * The text of a stream whose chunks are parts of it, read up to {@link MOST_STREAMED}; its values
 * where they are neither text nor bytes.
 */
export class StreamedText extends StreamedValues {
  private readonly decoder = new TextDecoder();
  private text = '';

  override get isFull(): boolean {
    return this.text.length >= MOST_STREAMED;
  }

  override get result(): unknown {
    return this.count > 0 ? super.result : this.text + this.decoder.decode();
  }

  override async take(chunk: unknown): Promise<void> {
    if (this.count === 0 && typeof chunk === 'string') this.text += chunk;
    else if (this.count === 0 && chunk instanceof Uint8Array)
      this.text += this.decoder.decode(chunk, { stream: true });
    else await this.takeValue(chunk);
  }

  /** Takes a value, before which the text so far is one, too. */
  private async takeValue(value: unknown): Promise<void> {
    if (this.count === 0 && this.text !== '') await super.take(this.text);
    await super.take(value);
  }
}
