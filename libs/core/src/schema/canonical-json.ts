import { hash } from 'node:crypto';
import type { JsonObject, JsonValue } from '@toolloop/protocol';
import { configure } from 'safe-stable-stringify';

const stringify = configure({ deterministic: true, circularValue: Error, strict: true });

/** One text per value, whatever the order of its keys: what is hashed, approved and compared. Throws for what JSON cannot carry. */
export function canonicalJson(value: JsonValue): string {
  return stringify(value) ?? 'null';
}

const stringifyDeclared = configure({ deterministic: true, circularValue: Error });

/**
 * The canonical text of what code declares: `undefined`s are left out, dates become text, and so on, as `JSON.stringify` has it. It is `canonicalJson` of a
 * JSON copy, without the copy, which takes longer than the text.
 */
export function canonicalDeclaration(value: object): string {
  return stringifyDeclared(value) ?? 'null';
}

/** SHA-256 of the UTF-8 text, in lower-case hex. */
export function sha256(text: string): string {
  return hash('sha256', text);
}

/** A value that is JSON but for `undefined`s, dates and frozen parts, as JSON. */
export function toJson(value: object): JsonValue {
  return JSON.parse(JSON.stringify(value)) as JsonValue;
}

/** The same for what is no list. */
export function toJsonObject(value: object): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}

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
