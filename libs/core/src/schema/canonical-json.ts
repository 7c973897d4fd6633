import { createHash } from 'node:crypto';
import { configure } from 'safe-stable-stringify';
import type { JsonValue } from '../protocol/json.js';

const stringify = configure({ deterministic: true, circularValue: Error, strict: true });

/** One text per value, whatever the order of its keys: what is hashed, approved and compared. Throws for what JSON cannot carry. */
export function canonicalJson(value: JsonValue): string {
  return stringify(value) ?? 'null';
}

/** SHA-256 of the UTF-8 text, in lower-case hex. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
