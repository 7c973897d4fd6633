import type { JsonValue } from '../protocol/json.js';

/** A value that is JSON but for `undefined`s, dates and frozen parts, as JSON. */
export function toJson(value: object): JsonValue {
  return JSON.parse(JSON.stringify(value)) as JsonValue;
}
