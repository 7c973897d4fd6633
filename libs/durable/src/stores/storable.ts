import { hash } from 'node:crypto';
import type { JsonValue } from '@toolloop/core';
import { StoreRefusalError } from '@toolloop/core/stores';

/**
 * Thrown for a value that the database cannot keep as it is. Nothing was written: a value that is
 * quietly changed would be another's.
 */
export class UnstorableError extends StoreRefusalError {
  override readonly name = 'UnstorableError';
  readonly code = 'unstorable';
}

const MOST_CHARACTERS = 512;
/**
 * NUL, which a text may not hold, and halves of surrogate pairs, which would all become the same
 * character.
 */
const UNKEPT = /\0|\p{Surrogate}/u;
const ALL_UNKEPT = new RegExp(UNKEPT, 'gu');

/** Tells if a text comes back from the database as it went in. */
export function isStorable(text: string): boolean {
  return text.length <= MOST_CHARACTERS && !UNKEPT.test(text);
}

/**
 * The name of a tenant or a run, as a key.
 *
 * @throws {UnstorableError} For a text that is too long or would be changed.
 */
export function storableKey(text: string, what: string): string {
  if (isStorable(text)) return text;
  throw new UnstorableError(
    `The ${what} has a NUL, half a surrogate pair or more than ${MOST_CHARACTERS} characters and cannot be stored.`,
  );
}

/**
 * SHA-256 of texts that anybody may choose, however long and whatever is in them. JSON keeps apart
 * what UTF-8 would make alike.
 */
export function keyHash(...parts: readonly (string | null)[]): string {
  return hash('sha256', JSON.stringify(parts));
}

/** A text for people to look at, as much of it as the database can keep. */
export function shownText(text: string): string {
  return text.slice(0, MOST_CHARACTERS).replace(ALL_UNKEPT, '\ufffd');
}

/** A text that was kept as JSON, since it may hold what a text of the database may not. */
export function fromTextJson(json: string): string {
  const text: unknown = JSON.parse(json);
  return String(text);
}

/**
 * The JSON text of a value.
 *
 * @throws {UnstorableError} For values that JSON would drop or change: a bigint, a date, bytes, a
 *   number that is none.
 */
export function storedJson(value: unknown, what: string): string {
  const found = unstorableIn(value, what);
  if (found !== undefined) throw new UnstorableError(`${found} is not JSON and cannot be stored.`);
  return JSON.stringify(value);
}

function unstorableIn(value: unknown, path: string): string | undefined {
  // what is undefined is left out, as an absent field is
  if (value === undefined || isScalar(value)) return undefined;
  if (Array.isArray(value)) return first(value.entries(), path);
  if (typeof value === 'object' && value !== null && isPlain(value))
    return first(Object.entries(value), path);
  return `${path} (${nameOf(value)})`;
}

function first(
  entries: Iterable<readonly [string | number, unknown]>,
  path: string,
): string | undefined {
  for (const [key, value] of entries) {
    if (isScalar(value)) continue;
    const found = unstorableIn(value, `${path}.${key}`);
    if (found !== undefined) return found;
  }
  return undefined;
}

function isScalar(value: unknown): value is JsonValue {
  return (
    value === null ||
    typeof value === 'string' ||
    typeof value === 'boolean' ||
    Number.isFinite(value)
  );
}

/** Objects of other realms are plain as well, so the prototype is not compared. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function nameOf(value: unknown): string {
  return typeof value === 'object' && value !== null ? value.constructor.name : typeof value;
}
