import { hash } from 'node:crypto';
import type { JsonObject, JsonValue } from '@toolloop/protocol';
import { configure } from 'safe-stable-stringify';

/**
 * Writes the canonical text of a value, the same for any order of its keys, to be hashed, approved
 * or compared.
 *
 * @throws Error for a value that JSON cannot carry
 */
export function canonicalJson(value: JsonValue): string {
  return stringify(value) ?? 'null';
}

const stringify = configure({ deterministic: true, circularValue: Error, strict: true });

const stringifyDeclared = configure({ deterministic: true, circularValue: Error });

/**
 * Writes the canonical text of a declaration in code: `undefined`s are left out, dates become text,
 * and so on, as in `JSON.stringify`. It equals `canonicalJson` of a JSON copy, without the copy,
 * which takes longer than the text.
 */
export function canonicalDeclaration(value: object): string {
  return stringifyDeclared(value) ?? 'null';
}

/** Returns the SHA-256 of the UTF-8 text, in lower-case hex. */
export function sha256(text: string): string {
  return hash('sha256', text);
}

/** Copies a value that is JSON except for `undefined`s, dates and frozen parts. */
export function toJson(value: object): JsonValue {
  return JSON.parse(JSON.stringify(value)) as JsonValue;
}

/** Copies an object like {@link toJson}. */
export function toJsonObject(value: object): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}

/**
 * Parses JSON; undefined when the text is malformed. An empty text is an empty object, since some
 * models send it for no arguments.
 */
export function parseJson(text: string): JsonValue | undefined {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

/** Parses canonical JSON. */
export function fromCanonical(canonical: string): JsonObject {
  return JSON.parse(canonical) as JsonObject;
}

/**
 * The placeholder for a number that is too large while its JSON is written; no argument has this
 * value by chance.
 */
const HUGE = 'toolloop:1e999:f2b6c0';

/**
 * Writes a value of {@link parseJson} as JSON. `1e999` is valid JSON, but is read as infinity,
 * which `JSON.stringify` would write as null.
 */
export function compactJson(value: JsonValue): string {
  let isHuge = false;
  const text = JSON.stringify(value, (_key, one: JsonValue) => {
    if (typeof one !== 'number' || Number.isFinite(one)) return one;
    isHuge = true;
    return HUGE;
  });
  return isHuge ? text.replaceAll(`"${HUGE}"`, '1e999') : text;
}
