import { ToolError } from '@toolloop/core';
import type { OpenFile } from './root-directory.js';

/**
 * Reads a UTF-8 file line by line, in constant memory whatever its size and the length of its
 * lines. Invalid bytes become U+FFFD.
 *
 * @throws ToolError for a binary file: one with a zero byte
 */
export async function* readLines(
  { handle }: OpenFile,
  options: LineOptions,
): AsyncGenerator<Line, void, undefined> {
  const lines = new LineSplitter(options.maxLineCharacters);
  const decoder = new TextDecoder();
  const buffer = Buffer.alloc(CHUNK_BYTES);
  for (let position = 0; position < options.maxBytes;) {
    options.signal.throwIfAborted();
    const { bytesRead } = await handle.read(
      buffer,
      0,
      Math.min(CHUNK_BYTES, options.maxBytes - position),
      position,
    );
    if (bytesRead === 0) break;
    const bytes = buffer.subarray(0, bytesRead);
    if (bytes.includes(0))
      throw new ToolError('That is a binary file. Only text in UTF-8 can be read.');
    position += bytesRead;
    yield* lines.push(decoder.decode(bytes, { stream: true }));
  }
  yield* lines.push(decoder.decode());
  yield* lines.end();
}

/** A line of a text file. */
export interface Line {
  /** The number of the line, from 1. */
  readonly number: number;
  /** The text without the line end. */
  readonly text: string;
  /** `true` if the line is longer than `text`. */
  readonly cut: boolean;
}

export interface LineOptions {
  /** The most bytes that are read. */
  readonly maxBytes: number;
  /** The most characters that are kept of a line. */
  readonly maxLineCharacters: number;
  readonly signal: AbortSignal;
}

const CHUNK_BYTES = 65_536;

class LineSplitter {
  private number = 1;
  private pending = '';
  private length = 0;

  constructor(private readonly maxCharacters: number) {}

  *push(text: string): Generator<Line, void, undefined> {
    let start = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      this.add(text, start, end);
      yield this.take();
      start = end + 1;
    }
    this.add(text, start, text.length);
  }

  /** Yields the text after the last line end, if any. */
  *end(): Generator<Line, void, undefined> {
    if (this.length > 0) yield this.take();
  }

  private add(text: string, start: number, end: number): void {
    const room = this.maxCharacters + 1 - this.pending.length; // one more, for a carriage return
    if (room > 0) this.pending += text.slice(start, Math.min(end, start + room));
    this.length += end - start;
  }

  private take(): Line {
    const whole =
      this.length === this.pending.length ? this.pending.replace(/\r$/, '') : this.pending;
    const line = {
      number: this.number,
      text: whole.slice(0, this.maxCharacters),
      cut: this.length > this.pending.length || whole.length > this.maxCharacters,
    };
    this.number += 1;
    this.pending = '';
    this.length = 0;
    return line;
  }
}
