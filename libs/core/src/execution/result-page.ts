import type { JsonObject } from '../protocol/json.js';
import { cut } from './cut-text.js';

/** The tool that reads what was cut, by the id under which policies name it. */
export const RESULT_READER_ID = 'results__read';

/** How much of a page its note takes, about. */
const NOTE_BYTES = 120;

/** A part of a result that was cut before. It becomes as long as the reader's budget lets it. */
export class ResultPage {
  readonly #text: string;

  constructor(
    readonly handle: string,
    private readonly whole: { readonly text: string; readonly tool: string },
    /** Where it begins, in characters. */
    private readonly offset: number,
    length: number,
  ) {
    this.#text = whole.text.slice(offset, boundaryIn(whole.text, offset + length));
  }

  /** What the ui sees: the text is the model's. */
  get facts(): JsonObject {
    return { handle: this.handle, of: this.whole.tool, offset: this.offset, characters: this.whole.text.length };
  }

  /** As much of it as fits, cut between characters, and where to go on. */
  fitted(mostBytes: number, word: (text: string) => string): string {
    let length = this.#text.length;
    let most = Math.min(length, Math.max(0, mostBytes - NOTE_BYTES));
    for (;;) {
      length = boundaryIn(this.#text, most);
      const worded = word(this.#text.slice(0, length) + this.noteAfter(length));
      const bytes = Buffer.byteLength(worded);
      if (bytes <= mostBytes) return worded;
      if (length === 0) return cut(worded, mostBytes);
      most = Math.min(length - 1, Math.floor((length * mostBytes) / bytes));
    }
  }

  private noteAfter(length: number): string {
    const [end, all] = [this.offset + length, this.whole.text.length];
    const place = `\n[${this.handle}: characters ${this.offset} to ${end} of ${all}`;
    return end < all ? `${place}. Go on: ${readingOf(this.handle, end)}]` : `${place}, the end.]`;
  }
}

/** The call that reads on, as a model writes it. */
export function readingOf(handle: string, offset: number): string {
  return `${RESULT_READER_ID}(${JSON.stringify({ handle, offset })})`;
}

/** The same place, or the one before it where a character would be cut in two. */
export function boundaryIn(text: string, place: number): number {
  const isWithin = place > 0 && place < text.length && isLow(text.charCodeAt(place)) && isHigh(text.charCodeAt(place - 1));
  return isWithin ? place - 1 : place;
}

function isHigh(unit: number): boolean {
  return unit >= 0xd8_00 && unit <= 0xdb_ff;
}

function isLow(unit: number): boolean {
  return unit >= 0xdc_00 && unit <= 0xdf_ff;
}
