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
