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

/** The text of a chunk, and where a provider puts random characters beside it. */
export interface ChunkText {
  readonly text: string;
  /** A string that differs in every chunk and that nothing reads, such as OpenAI's `obfuscation`; it stands behind the text. */
  readonly padding?: string;
}

/** The characters that JSON writes with an escape, or ends a string with. */
const NOT_PLAIN = /["\\\p{Cc}]/u;

/** Chunks of a form that did not come again, after which no other form is looked for: a template costs as much as it can save. */
const MOST_UNUSED = 4;
/** Longer chunks are rare, and comparing them would save little beside their text. */
const MOST_CHARACTERS = 4096;

/** Stand for the text and the padding of a chunk while its form is checked. */
const [MARK, PADDING_MARK] = ['\u{E000}text\u{E000}', '\u{E000}padding\u{E000}'];

/**
 * The form of the last chunk of text. Most chunks of an answer differ from the one before in their text alone, so that comparing what is around it tells as much as parsing the whole
 * does, for a fraction of the cost. Whatever differs elsewhere is parsed.
 */
export class ChunkTemplate {
  private before: string | undefined;
  private behind = '';
  /** The characters behind the padding, where there is one. */
  private end: string | undefined;
  private isUsed = false;
  private unused = 0;

  /** Returns the text of a payload that equals the last one but for it; undefined for any other. */
  textOf(payload: string): string | undefined {
    const { before, behind, end } = this;
    if (before === undefined || !payload.startsWith(before)) return undefined;
    const textEnd = payload.indexOf('"', before.length);
    if (textEnd < 0 || !payload.startsWith(behind, textEnd)) return undefined;
    const rest = textEnd + behind.length;
    if (end === undefined ? rest !== payload.length : !isPadded(payload, rest, end)) return undefined;
    const text = payload.slice(before.length, textEnd);
    if (NOT_PLAIN.test(text)) return undefined;
    this.isUsed = true;
    return text;
  }

  /** Forgets the form: a chunk of another form may have changed what the last one says again. */
  forget(): void {
    if (this.before === undefined) return;
    this.unused = this.isUsed ? 0 : this.unused + 1;
    this.isUsed = false;
    this.before = undefined;
  }

  /**
   * Takes over the form of a payload. It is taken only where a parser finds marks that are put in the places of text and padding: then nothing else of what it reads depends on them.
   *
   * @param read tells the text of a payload as a parser sees it
   */
  learn(payload: string, { text, padding }: ChunkText, read: (payload: string) => ChunkText | undefined): void {
    if (this.unused >= MOST_UNUSED || payload.length > MOST_CHARACTERS || payload.includes('\u{E000}')) return;
    const form = formOf(payload, text, padding);
    if (form === undefined) return;
    const [before, behind, end] = form;
    const marked = read(before + MARK + behind + (end === undefined ? '' : PADDING_MARK + end));
    const isForm = marked?.text === MARK && marked.padding === (end === undefined ? undefined : PADDING_MARK);
    if (isForm) [this.before, this.behind, this.end] = form;
    else this.unused += 1;
  }
}

/** The characters before the text, behind it, and behind the padding where there is one. */
type Form = readonly [before: string, behind: string, end: string | undefined];

function formOf(payload: string, text: string, padding: string | undefined): Form | undefined {
  const at = startOf(payload, text, 0);
  if (at < 0) return undefined;
  const [before, behind] = [payload.slice(0, at), payload.slice(at + text.length)];
  if (padding === undefined) return [before, behind, undefined];
  const paddedAt = startOf(behind, padding, 0);
  return paddedAt < 0 ? undefined : [before, behind.slice(0, paddedAt), behind.slice(paddedAt + padding.length)];
}

/** Finds the first place of a plain string as a value of its own. */
function startOf(payload: string, value: string, from: number): number {
  if (NOT_PLAIN.test(value)) return -1;
  const at = payload.indexOf(`"${value}"`, from);
  return at < 0 ? -1 : at + 1;
}

function isPadded(payload: string, from: number, end: string): boolean {
  const at = payload.indexOf('"', from);
  return at >= 0 && at + end.length === payload.length && payload.endsWith(end) && !NOT_PLAIN.test(payload.slice(from, at));
}
