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

/** Stands for a number that is too large while its JSON is written; no argument reads so by chance. */
const HUGE = 'toolloop:1e999:f2b6c0';

/** The JSON of what {@link parseJson} read. `1e999` is JSON, and `JSON.stringify` would write the infinity that it was read as, as null. */
export function compactJson(value: JsonValue): string {
  let isHuge = false;
  const text = JSON.stringify(value, (_key, one: JsonValue) => {
    if (typeof one !== 'number' || Number.isFinite(one)) return one;
    isHuge = true;
    return HUGE;
  });
  return isHuge ? text.replaceAll(`"${HUGE}"`, '1e999') : text;
}
