import { setImmediate } from 'node:timers/promises';
import { type Message, ModelError, type ModelRequest } from '@toolloop/protocol';

/** The values that no error may repeat. */
export interface Confidences {
  readonly apiKey: string;
  readonly request: ModelRequest;
}

/** The number of characters in a row that count as a quotation. */
const QUOTATION = 16;

/** The shortest whole text that counts as a quotation: `Hello` stands in many errors. */
const SHORTEST_TEXT = 6;

/**
 * The shortest key that is looked for: a shorter one, such as `none` for a local server, is no
 * secret, and its letters stand in many errors.
 */
const SHORTEST_KEY = 8;

/** The longest message of an error that is kept; nothing behind it has to be searched for. */
const MESSAGE_CHARACTERS = 2_000;

/**
 * Removes the key, and all that is quoted from the request, from an error: a provider may echo what
 * it was sent, and errors end up in logs. Names of models and tools stay, since an error is of no
 * use without them. Reads the request once, and lets others run meanwhile: a transcript can be
 * long.
 */
export async function withDiscretion(
  error: ModelError,
  { apiKey, request }: Confidences,
): Promise<ModelError> {
  const keyless =
    apiKey.length < SHORTEST_KEY ? error.message : error.message.replaceAll(apiKey, '[api key]');
  const message = await withoutQuotations(shortened(keyless), textsIn(request));
  if (message === error.message) return error;
  const { code, status, isRetryable: retryable, requestId, retryAfterMs, cause } = error;
  return new ModelError(message, { code, status, retryable, requestId, retryAfterMs, cause });
}

function shortened(message: string): string {
  return message.length > MESSAGE_CHARACTERS ? `${message.slice(0, MESSAGE_CHARACTERS)}…` : message;
}

async function withoutQuotations(message: string, texts: readonly string[]): Promise<string> {
  const rest = withoutWholeTexts(message, texts);
  const quotations = new Quotations(rest);
  for (const text of texts) {
    for (let from = 0; from + QUOTATION <= text.length; from += STRETCH) {
      quotations.note(text, from, Math.min(text.length, from + STRETCH + QUOTATION - 1));
      if (quotations.isDue(STRETCH)) await setImmediate();
    }
  }
  return quotations.removed();
}

/** Removes the short texts that stand in a message as a whole. */
function withoutWholeTexts(message: string, texts: readonly string[]): string {
  const pieces = new Set<string>();
  for (let length = SHORTEST_TEXT; length < QUOTATION; length += 1) {
    for (let at = 0; at + length <= message.length; at += 1)
      pieces.add(message.slice(at, at + length));
  }
  let rest = message;
  for (const text of texts) {
    const whole = text.trim();
    if (whole.length < QUOTATION && pieces.has(whole)) rest = rest.replaceAll(whole, '[…]');
  }
  return rest;
}

/**
 * The number of characters of a request that are read in a row, which takes a millisecond or two.
 */
const STRETCH = 256 * 1024;

/** Looked up once: it is called for every character. */
const { imul } = Math;

/** The factor of the rolling hash, and the one with which the oldest of the characters is in it. */
const FACTOR = 31;
const OLDEST_FACTOR = Array.from({ length: QUOTATION - 1 }).reduce<number>(
  (power) => imul(power, FACTOR),
  1,
);

const FILTER_BITS = 0xffff;

/**
 * The places of a message at which a quotation from a text begins, found by the rolling hash of the
 * characters in a row.
 */
class Quotations {
  private readonly starts = new Map<string, readonly number[]>();
  /**
   * The number of the message's pieces by their hashes, cut to 16 bits: hardly any other piece
   * passes.
   */
  private readonly filter = new Uint16Array(FILTER_BITS + 1);
  private readonly quoted = new Set<number>();
  private read = 0;

  constructor(private readonly message: string) {
    for (let at = 0; at + QUOTATION <= message.length; at += 1) {
      const piece = message.slice(at, at + QUOTATION);
      const known = this.starts.get(piece);
      if (known === undefined) this.count(piece, 1);
      this.starts.set(piece, [...(known ?? []), at]);
    }
  }

  /** Notes what the message quotes from a stretch of a text. */
  note(text: string, from: number, to: number): void {
    let hash = hashOf(text, from, from + QUOTATION);
    for (let end = from + QUOTATION; ; end += 1) {
      if (this.filter[hash & FILTER_BITS] !== 0) this.take(text.slice(end - QUOTATION, end));
      if (end >= to) break;
      const oldest = imul(text.charCodeAt(end - QUOTATION), OLDEST_FACTOR);
      hash = (imul(hash - oldest, FACTOR) + text.charCodeAt(end)) | 0;
    }
    this.read += to - from;
  }

  /** Tells whether so many characters were read since it was last due. */
  isDue(characters: number): boolean {
    if (this.read < characters) return false;
    this.read = 0;
    return true;
  }

  /** Returns the message without the quotations. */
  removed(): string {
    const { message, quoted } = this;
    let told = '';
    for (let at = 0; at < message.length;) {
      if (!quoted.has(at)) told += message.charAt(at++);
      else {
        while (quoted.has(at + 1)) at += 1;
        told += '[…]';
        at += QUOTATION;
      }
    }
    return told;
  }

  private take(piece: string): void {
    const starts = this.starts.get(piece);
    if (starts === undefined) return;
    for (const start of starts) this.quoted.add(start);
    // Each piece of the message is looked for once: a text may repeat it without end.
    this.starts.delete(piece);
    this.count(piece, -1);
  }

  private count(piece: string, change: number): void {
    const hash = hashOf(piece, 0, QUOTATION) & FILTER_BITS;
    this.filter[hash] = (this.filter[hash] ?? 0) + change;
  }
}

function hashOf(text: string, from: number, to: number): number {
  let hash = 0;
  for (let at = from; at < to; at += 1) hash = (imul(hash, FACTOR) + text.charCodeAt(at)) | 0;
  return hash;
}

function textsIn({ instructions = '', messages }: ModelRequest): readonly string[] {
  return [instructions, ...messages.flatMap(textsOf)];
}

function textsOf(message: Message): readonly string[] {
  const { content } = message;
  const said =
    typeof content === 'string'
      ? [content]
      : content.map((part) => (part.type === 'text' ? part.text : part.url));
  const own =
    message.role === 'assistant'
      ? [message.reasoning ?? '', ...(message.toolCalls ?? []).map((call) => call.arguments)]
      : [];
  return [...said, ...own];
}
