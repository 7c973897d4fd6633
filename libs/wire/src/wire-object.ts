/** Anything a provider sends: nothing about it is certain before it has been looked at. */
export type WireObject = Readonly<Record<string, unknown>>;

export function isWireObject(value: unknown): value is WireObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The object a JSON text stands for; undefined when it is malformed or something else than an object. */
export function parseWireObject(text: string): WireObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isWireObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The objects in a list; none when it is no list. */
export function wireObjectsIn(value: unknown): readonly WireObject[] {
  return Array.isArray(value) ? value.filter(isWireObject) : [];
}

/** A model may have invented a name that its provider refuses to read again; the refusal in the transcript says what was wrong. */
export function toWireName(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || '_';
}

/** Providers refuse a transcript with arguments that are not a JSON object; the error result in the transcript explains what they were. */
export function toWireArguments(text: string): string {
  return parseWireObject(text) === undefined ? '{}' : text;
}
