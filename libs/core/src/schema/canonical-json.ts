import { hash } from 'node:crypto';
import { configure } from 'safe-stable-stringify';
import type { JsonValue } from '../protocol/json.js';

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
