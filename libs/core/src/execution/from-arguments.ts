import type { JsonObject, JsonValue } from '../protocol/json.js';

/** The JSON a text holds; undefined when it holds none. An empty text is an empty object: some models send that for no arguments. */
export function parseJson(text: string): JsonValue | undefined {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

/** The object that canonical JSON stands for. */
export function fromCanonical(canonical: string): JsonObject {
  return JSON.parse(canonical) as JsonObject;
}
