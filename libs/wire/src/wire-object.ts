import type { ModelResponseIdentity } from '@toolloop/protocol';

/** An unchecked object of a provider: each field is read with a check of its type. */
export type WireObject = Readonly<Record<string, unknown>>;

export function isWireObject(value: unknown): value is WireObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Reads the id of an answer and the model that gave it, where a payload names them. */
export function toIdentity({ id, model }: WireObject): Pick<ModelResponseIdentity, 'id' | 'model'> {
  return {
    ...(typeof id === 'string' && id !== '' && { id }),
    ...(typeof model === 'string' && model !== '' && { model }),
  };
}

/** Parses a JSON object; undefined when the text is malformed or holds anything else. */
export function parseWireObject(text: string): WireObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isWireObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the objects in a list; none when the value is not a list. */
export function wireObjectsIn(value: unknown): readonly WireObject[] {
  return Array.isArray(value) ? value.filter(isWireObject) : [];
}

/** Makes a tool name that every provider accepts: a model may have invented one that its provider refuses to read again. */
export function toWireName(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || '_';
}

/** Replaces arguments that are not a JSON object, since providers refuse a transcript with them; its error result explains what was wrong. */
export function toWireArguments(text: string): string {
  return parseWireObject(text) === undefined ? '{}' : text;
}

/** The end of an event of a stream. */
export const EVENT_END = '\n\n';

/** An event as it stands in a text. */
interface FoundEvent {
  readonly name: string | undefined;
  readonly payload: string;
  /** The place behind its blank line. */
  readonly end: number;
}

/** Finds the event at a place: one line of data with a blank line behind it, and at most its name before. Undefined for any other, which a parser has to read. */
export function eventAt(text: string, at: number): FoundEvent | undefined {
  const isNamed = text.startsWith('event: ', at);
  const start = isNamed ? text.indexOf('\n', at) + 1 : at;
  const name = isNamed ? text.slice(at + 'event: '.length, start - 1) : undefined;
  // A name without an end may be one of which the rest is yet to come.
  if (start < at || name === '' || !text.startsWith('data: ', start)) return undefined;
  const end = text.indexOf('\n', start);
  if (end < 0 || text.charAt(end + 1) !== '\n') return undefined;
  // A carriage return ends a line, too.
  if (text.slice(at, end).includes('\r')) return undefined;
  return { name, payload: text.slice(start + 'data: '.length, end), end: end + EVENT_END.length };
}

/** The text of a chunk, and what differs in each chunk though nothing reads it. */
export interface ChunkText {
  readonly text: string;
  /** Strings and whole numbers by the names of their fields, such as OpenAI's `obfuscation`; a field that is undefined is not there. */
  readonly unread?: WireObject;
  /** `true` for a piece of a call's arguments, which mostly come in a few pieces. @default false */
  readonly isOfCall?: boolean;
}

/** The pieces of calls in an answer that are parsed before a form is looked for: a form costs about as much as it saves in so many. */
const FEWEST_PIECES = 8;

/** Chunks of a form that did not come again, after which no other form is looked for: a template costs as much as it can save. */
const MOST_UNUSED = 4;
/** Longer chunks are rare, and comparing them would save little beside their text. */
const MOST_CHARACTERS = 4096;

/** Stand for the text and for strings and numbers that nothing reads while the form of a chunk is checked. */
const [TEXT_MARK, STRING_MARK, NUMBER_MARK] = ['\u{E000}text\u{E000}', '\u{E000}string\u{E000}', 982_451_653];

/** Match at a place what JSON writes without an escape, all that it writes in a string, a whole number, and the end of an object, before which Anthropic puts some spaces. */
const PLAIN = /[ !#-[\]-\uFFFF]*/y;
const ESCAPED = /(?:[ !#-[\]-\uFFFF]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*/y;
const NUMBER = /0|[1-9]\d{0,14}/y;
const OBJECT_END = / *\}/y;

/** A place of a chunk that differs, and the characters between the one before and it. */
interface Gap {
  readonly before: string;
  readonly kind: 'text' | 'string' | 'number';
  /** The name of what is not read. */
  readonly name: string;
}

/**
 * The form of the last chunk of text. Most chunks of an answer differ from the one before in their text alone, and in fields that nothing reads, so that comparing what is around these tells
 * as much as parsing the whole does, for a fraction of the cost. Whatever differs elsewhere is parsed.
 */
export class ChunkTemplate {
  /** The text of the chunk that was matched last. */
  text = '';
  private form: Form | undefined;
  private isUsed = false;
  private unused = 0;
  private pieces = 0;

  /** Returns the place behind a chunk that begins at a place and equals the last one but for its gaps; -1 for any other. */
  match(source: string, from: number): number {
    if (this.form && !standsAt(source, from, this.form.start)) this.form = this.form.anyStart;
    const { form } = this;
    if (form === undefined) return -1;
    let [at, text] = [from + form.start.length, ''];
    for (const { before, kind } of form.gaps) {
      if (!standsAt(source, at, before)) return -1;
      const start = at + before.length;
      at = endOf(kind, source, start);
      if (at < 0) return -1;
      if (kind === 'text') text = fromJson(source.slice(start, at));
    }
    if (!standsAt(source, at, form.end)) return -1;
    const end = behind(OBJECT_END, source, at + form.end.length);
    if (end < 0) return -1;
    this.isUsed = true;
    this.text = text;
    return end;
  }

  /** Forgets the form: a chunk of another form may have changed what the last one says again. */
  forget(): void {
    if (this.form === undefined) return;
    this.unused = this.isUsed ? 0 : this.unused + 1;
    this.isUsed = false;
    this.form = undefined;
  }

  /**
   * Takes over the form of a payload. It is taken only where a parser finds marks that are put in its gaps: then nothing else of what it reads depends on them.
   *
   * @param textIn finds the text of a parsed payload
   * @returns `true` where the form was taken over
   */
  learn(payload: string, chunk: WireObject, textIn: (chunk: WireObject) => ChunkText | undefined): boolean {
    const found = textIn(chunk);
    if (found === undefined || found.text === '' || this.unused >= MOST_UNUSED) return false;
    this.pieces += found.isOfCall === true ? 1 : 0;
    if (found.isOfCall === true && this.pieces < FEWEST_PIECES) return false;
    const form = formOf(payload, found);
    if (form === undefined) return false;
    const isForm = isFoundBy(textIn, form.anyStart);
    if (isForm) this.form = form;
    else this.unused += 1;
    return isForm;
  }
}

/** The text behind a start that reaches to it. */
const TEXT_AT_ONCE: Gap = { before: '', kind: 'text', name: '' };

interface Form {
  /** The characters before the first gap that is looked for. */
  readonly start: string;
  readonly gaps: readonly Gap[];
  /** The characters behind the last gap. */
  readonly end: string;
  /** The form for chunks with another start; absent where each gap is looked for. */
  readonly anyStart?: Form;
}

/** Makes the form of chunks that begin as a payload does, up to its text: most of what may differ stands there, such as the id of the answer, and does not differ within an answer. */
function formOf(payload: string, found: ChunkText): (Form & Required<Pick<Form, 'anyStart'>>) | undefined {
  if (payload.length > MOST_CHARACTERS || payload.includes('\u{E000}') || !payload.endsWith('}')) return undefined;
  const places = placesIn(payload, found);
  if (places === undefined) return undefined;
  const gaps: Gap[] = [];
  let behindLast = 0;
  for (const { at, end, kind, name } of places) {
    if (at < behindLast) return undefined;
    gaps.push({ before: payload.slice(behindLast, at), kind, name });
    behindLast = end;
  }
  const end = payload.slice(behindLast, -1).trimEnd();
  const index = places.findIndex(({ kind }) => kind === 'text');
  const start = payload.slice(0, places[index]?.at);
  return { start, gaps: [TEXT_AT_ONCE, ...gaps.slice(index + 1)], end, anyStart: { start: '', gaps, end } };
}

/** Tells whether a parser finds marks in the gaps of a form. */
function isFoundBy(textIn: (chunk: WireObject) => ChunkText | undefined, { gaps, end }: Form): boolean {
  const chunk = parseWireObject(`${gaps.map(({ before, kind }) => `${before}${MARKS[kind]}`).join('')}${end}}`);
  const read = chunk && textIn(chunk);
  return read?.text === TEXT_MARK && gaps.every(({ name, kind }) => kind === 'text' || read.unread?.[name] === MARKS[kind]);
}

/** Compares by a piece, which V8 compares in words: `startsWith` at a place goes character by character, at four times the cost. */
function standsAt(source: string, at: number, piece: string): boolean {
  return source.slice(at, at + piece.length) === piece;
}

/** Returns the place behind a gap; -1 where something else stands there. */
function endOf(kind: Gap['kind'], source: string, start: number): number {
  if (kind === 'number') return behind(NUMBER, source, start);
  const end = behind(PLAIN, source, start);
  return kind === 'text' && source.charAt(end) === '\\' ? behind(ESCAPED, source, start) : end;
}

/** Reads the characters between the quotation marks of a string. */
function fromJson(written: string): string {
  return written.includes('\\') ? String(JSON.parse(`"${written}"`)) : written;
}

/** Returns the place behind what an expression matches at a place; -1 where it does not. */
function behind(expression: RegExp, source: string, at: number): number {
  expression.lastIndex = at;
  return expression.test(source) ? expression.lastIndex : -1;
}

const MARKS: Readonly<Record<Gap['kind'], string | number>> = { text: TEXT_MARK, string: STRING_MARK, number: NUMBER_MARK };

/** The place of a value in a payload. */
interface Place extends Omit<Gap, 'before'> {
  readonly at: number;
  readonly end: number;
}

/** Finds the places of the text and of what is not read, in their order; undefined where one of them is not found. */
function placesIn(payload: string, { text, unread = {} }: ChunkText): readonly Place[] | undefined {
  const places = Object.entries(unread).map(([name, value]) => (mayDiffer(value) ? placeOf(payload, name, value) : []));
  const found = [placeOfText(payload, text), ...places].flat();
  return found.includes(undefined) ? undefined : found.filter((place) => place !== undefined).toSorted((one, other) => one.at - other.at);
}

/** Tells whether a value that is not read is a string or a whole number. Any other has to stay as it is. */
function mayDiffer(value: unknown): boolean {
  return typeof value === 'string' || (Number.isInteger(value) && Number(value) >= 0);
}

/** Finds the first place of a text as a value of its own. */
function placeOfText(payload: string, text: string): Place | undefined {
  const written = JSON.stringify(text);
  const at = payload.indexOf(written) + 1;
  return at > 0 ? { at, end: at + written.length - 2, kind: 'text', name: '' } : undefined;
}

/** Finds the value of a field where its name stands first. */
function placeOf(payload: string, name: string, value: unknown): Place | undefined {
  const key = `"${name}":`;
  const named = payload.indexOf(key) + key.length;
  const start = payload.charAt(named) === ' ' ? named + 1 : named;
  const [at, kind] = typeof value === 'number' ? ([start, 'number'] as const) : ([start + 1, 'string'] as const);
  const written = String(value);
  return named >= key.length && payload.startsWith(written, at) ? { at, end: at + written.length, kind, name } : undefined;
}
