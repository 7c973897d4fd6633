import type { JsonObject, JsonValue } from '../protocol/json.js';

/** A value that is JSON but for `undefined`s, dates and frozen parts, as JSON. */
export function toJson(value: object): JsonValue {
  return JSON.parse(JSON.stringify(value)) as JsonValue;
}

/** The same for what is no list. */
export function toJsonObject(value: object): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}
