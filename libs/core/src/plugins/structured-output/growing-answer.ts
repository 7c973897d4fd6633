import { isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import { parse } from 'jsonriver';
import { toJsonObject } from '../../schema/canonical-json.js';

/**
 * A structured answer while it is written: an object that only grows. Text that is not the
 * beginning of a JSON object shows nothing.
 */
export class GrowingAnswer {
  private text = '';
  private read = 0;
  private shownAt = SHOWN_CHARACTERS;
  private readonly chunks = new Chunks();
  private values: AsyncIterator<JsonValue> | undefined;
  private next: Promise<IteratorResult<JsonValue> | undefined> | undefined;

  /** Takes more of the text. Undefined where there is nothing new to show. */
  take(text: string): Promise<JsonObject | undefined> | undefined {
    this.text += text;
    return this.text.length < this.shownAt ? undefined : this.grown();
  }

  /** Returns the object with everything that was written, once the text has ended. */
  end(): Promise<JsonObject | undefined> | undefined {
    return this.read < this.text.length ? this.grown() : undefined;
  }

  private async grown(): Promise<JsonObject | undefined> {
    const { length } = this.text;
    this.shownAt = length + Math.max(SHOWN_CHARACTERS, Math.ceil(length * SHOWN_PART));
    if (!this.values) {
      const preamble = PREAMBLE.exec(this.text);
      if (!preamble) return undefined;
      this.read = preamble[0].length;
      this.values = parse(this.chunks);
    }
    const starved = this.chunks.add(this.text.slice(this.read));
    this.read = length;
    let latest: JsonValue | undefined;
    for (;;) {
      this.next ??= this.values.next().catch(() => undefined); // what follows is no JSON
      const result = await Promise.race([this.next, starved]);
      if (!result || result.done) break;
      this.next = undefined;
      latest = result.value;
    }
    // the parser writes on in its own
    return isJsonObject(latest) ? toJsonObject(latest) : undefined;
  }
}

/**
 * An answer is shown once it has grown by as many characters, and by this part of itself: what is
 * shown of it in all stays below nine times its size.
 */
const SHOWN_CHARACTERS = 32;
const SHOWN_PART = 1 / 8;
/** The text before a JSON object: nothing, or the beginning of a Markdown fence. */
const PREAMBLE = /^\s*(?:```(?:json)?\s*)?(?=\{)/;

/** Text that comes piece by piece, for a reader that asks for it. */
class Chunks implements AsyncIterableIterator<string> {
  private waiting: ((result: IteratorResult<string>) => void) | undefined;
  private chunk: string | undefined;
  private starve: (() => void) | undefined;

  /** Resolves to nothing as soon as the reader has read it all. */
  add(chunk: string): Promise<undefined> {
    const starved = new Promise<undefined>((resolve) => (this.starve = () => resolve(undefined)));
    if (this.waiting) this.waiting({ value: chunk });
    else this.chunk = chunk;
    this.waiting = undefined;
    return starved;
  }

  next(): Promise<IteratorResult<string>> {
    const { chunk } = this;
    this.chunk = undefined;
    if (chunk !== undefined) return Promise.resolve({ value: chunk });
    this.starve?.();
    return new Promise((resolve) => (this.waiting = resolve));
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
