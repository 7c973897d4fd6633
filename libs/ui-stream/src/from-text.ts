import type { JsonValue } from '@toolloop/protocol';

/** The value of a result that comes as a text, most of which are JSON. */
export function valueIn(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return text;
  }
}
