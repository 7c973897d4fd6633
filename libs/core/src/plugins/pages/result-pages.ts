import {
  type JsonObject,
  type MediaPart,
  type MessageLabels,
  type RecordedAttachment,
  ToolError,
} from '@toolloop/protocol';
import type { Tool } from '../../contracts/tool.js';

/**
 * One run's results that were larger than the model may read at once, so that it can read the rest.
 * The newest are kept, up to so many bytes; no other run has a way to them.
 */
export class ResultPages {
  private readonly kept = new Map<string, KeptResult>();
  /** The tools of those that are not kept any more, by handle. */
  private readonly gone = new Map<string, string>();
  private bytes = 0;
  private count: number;
  private wasNeeded: boolean;

  constructor(
    private readonly mostBytes: number,
    earlier: EarlierResults = { results: 0, hasHandles: false },
  ) {
    this.count = earlier.results;
    this.wasNeeded = earlier.hasHandles;
  }

  /** The size of all results that are kept, in bytes. */
  get keptBytes(): number {
    return this.bytes;
  }

  /** Returns whether the model knows of a handle. */
  get hasHandles(): boolean {
    return this.wasNeeded;
  }

  /** The handle by which the text can be read; undefined where it is too large to be kept. */
  keep(tool: Tool, text: string, labels?: MessageLabels): string | undefined {
    const bytes = Buffer.byteLength(text);
    if (bytes > this.mostBytes) return undefined;
    this.count += 1;
    this.wasNeeded = true;
    const handle = `r${this.count}`;
    this.kept.set(handle, { tool, text, bytes, labels });
    this.bytes += bytes;
    this.forgetDownTo(this.mostBytes);
    return handle;
  }

  /** Throws a `ToolError` that says how to get back what is not there. */
  read({ handle, offset, length }: PageQuestion): ResultPage {
    const result = this.kept.get(handle);
    if (!result) throw this.missing(handle);
    if (offset < result.text.length || offset === 0)
      return new ResultPage(handle, result, boundaryIn(result.text, offset), length);
    throw new ToolError(
      `The result ${handle} has ${result.text.length} characters, counted from 0: begin before its end.`,
    );
  }

  /** Lets go of what is kept; it reads as what had to go for want of room. */
  forget(): void {
    this.forgetDownTo(0);
  }

  private forgetDownTo(bytes: number): void {
    for (const [handle, result] of this.kept) {
      if (this.bytes <= bytes) return;
      this.kept.delete(handle);
      this.gone.set(handle, result.tool.spec.declaredId);
      this.bytes -= result.bytes;
    }
  }

  private missing(handle: string): ToolError {
    const tool = this.gone.get(handle);
    if (tool !== undefined)
      return new ToolError(
        `The result ${handle} is not kept any more. Call ${tool} again, and ask it for less at a time.`,
      );
    const known = [...this.kept.keys()];
    if (known.length > 0)
      return new ToolError(
        `No result has that handle. Available: ${known.join(', ')}. Call the tool again for any other.`,
      );
    return new ToolError(
      'No result is available: those of an earlier run, or from before this one was interrupted, are gone. Call that tool again.',
    );
  }
}

/** A request for a page of a result that was cut. */
export interface PageQuestion {
  readonly handle: string;
  /** The beginning of the page, in characters. */
  readonly offset: number;
  readonly length: number;
}

interface KeptResult {
  /** The tool that gave it. */
  readonly tool: Tool;
  /** The model's projection, whole. */
  readonly text: string;
  readonly bytes: number;
  /** The labels of the fields that it shows. @default it is not known who wrote it */
  readonly labels?: MessageLabels | undefined;
}

/** The results in the transcript so far. */
interface EarlierResults {
  /**
   * The number of results. Handles continue to count after them, so that an old handle is never a
   * new result.
   */
  readonly results: number;
  readonly hasHandles: boolean;
}

/** The tool that reads what was cut, by the id under which policies name it. */
export const RESULT_READER_ID = 'results__read';

/** The approximate size of a page's note, in bytes. */
const NOTE_BYTES = 120;

/** A part of a result that was cut before. It becomes as long as the reader's budget lets it. */
export class ResultPage {
  readonly #text: string;

  constructor(
    readonly handle: string,
    private readonly whole: Omit<KeptResult, 'bytes'>,
    /** The beginning of the page, in characters. */
    private readonly offset: number,
    length: number,
  ) {
    this.#text = whole.text.slice(offset, boundaryIn(whole.text, offset + length));
  }

  /** The tool whose result it is a part of. */
  get tool(): Tool {
    return this.whole.tool;
  }

  /** The labels of the whole result, which every part of it has. */
  get labels(): MessageLabels | undefined {
    return this.whole.labels;
  }

  /** The projection for the ui: the text is for the model alone. */
  get facts(): JsonObject {
    return {
      handle: this.handle,
      of: this.whole.tool.spec.declaredId,
      offset: this.offset,
      characters: this.whole.text.length,
    };
  }

  /**
   * Returns as much of the page as fits, cut between characters, and the call that reads the next
   * one.
   */
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
    return end < all
      ? `${place}. Continue: ${readingOf(this.handle, end)}]`
      : `${place}, the end.]`;
  }
}

/** The call that reads on, as a model writes it. */
export function readingOf(handle: string, offset: number): string {
  return `${RESULT_READER_ID}(${JSON.stringify({ handle, offset })})`;
}

/** The same place, or the one before it where a character would be cut in two. */
export function boundaryIn(text: string, place: number): number {
  const isWithin =
    place > 0 &&
    place < text.length &&
    isLow(text.charCodeAt(place)) &&
    isHigh(text.charCodeAt(place - 1));
  return isWithin ? place - 1 : place;
}

function isHigh(unit: number): boolean {
  return unit >= 0xd8_00 && unit <= 0xdb_ff;
}

function isLow(unit: number): boolean {
  return unit >= 0xdc_00 && unit <= 0xdf_ff;
}

/** Says what is left out of a text of so many bytes, whose first characters are shown. */
export type CutNote = (bytes: number, shownCharacters: number) => string;

/** For a reader who has no way to the rest. */
const ASK_FOR_LESS: CutNote = (bytes) =>
  `\n[… ${bytes} bytes in all; the middle was left out. Ask for less at a time. …]\n`;

/**
 * The head and the tail of a text that is too long, with a note between them, all within the budget
 * and cut between characters.
 */
export function cut(text: string, mostBytes: number, noteFor: CutNote = ASK_FOR_LESS): string {
  const bytes = Buffer.byteLength(text);
  if (bytes <= mostBytes) return text;
  const longest = noteFor(bytes, text.length);
  const room = mostBytes - Buffer.byteLength(longest);
  if (room < 0) return headOf(longest, mostBytes);
  const head = headOf(text, Math.ceil(room * 0.75));
  return head + noteFor(bytes, head.length) + tailOf(text, bytes - Math.floor(room * 0.25));
}

/** As many whole characters as fit. */
function headOf(text: string, mostBytes: number): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(mostBytes));
  return text.slice(0, read);
}

/** Returns the text from a byte on, or from the next character if the byte is inside one. */
function tailOf(text: string, fromByte: number): string {
  const tail = Buffer.from(text).subarray(fromByte);
  const start = tail.findIndex((byte) => (byte & 0xc0) !== 0x80);
  return start < 0 ? '' : tail.subarray(start).toString('utf8');
}

/** The part of a message that shows an attachment to the model. */
export function toMediaPart({ type, url, mediaType, name }: RecordedAttachment): MediaPart {
  if (type === 'image') return { type, url, ...(mediaType !== undefined && { mediaType }) };
  return { type, url, mediaType: mediaType ?? '', ...(name !== undefined && { name }) };
}
