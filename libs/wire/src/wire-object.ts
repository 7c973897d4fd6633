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

/**
 * Makes a tool name that every provider accepts: a model may have invented one that its provider
 * refuses to read again.
 */
export function toWireName(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || '_';
}

/**
 * Replaces arguments that are not a JSON object, since providers refuse a transcript with them; its
 * error result explains what was wrong.
 */
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

/**
 * Finds the event at a place: one line of data with a blank line behind it, and at most its name
 * before. Undefined for any other, which a parser has to read.
 */
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
