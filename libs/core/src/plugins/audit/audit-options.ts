import type { Finding } from '@toolloop/protocol';
import { oneOf } from '../../findings/option-rules.js';
import { CHECKED_BY_USE, defineOptions } from '../../findings/options.js';

/** Options of the audit. */
export interface AuditOptions {
  /**
   * The key that signs the entries. It is never stored with them; keep it outside their database.
   */
  readonly key: AuditKeys;
  /**
   * The form in which arguments are stored: `redacted` stores those that are not hidden, beside the
   * hash of all. @default 'hash'
   */
  readonly arguments?: 'hash' | 'redacted';
}

/** A secret, and the id of it that entries carry. */
export interface AuditKey {
  readonly id: string;
  readonly secret: string | Uint8Array;
}

/**
 * The secret, or the current secret and all former ones: the first signs, the others only verify. A
 * secret has at least 32 bytes; a string counts as its UTF-8 bytes, or after `base64:` as the bytes
 * that it encodes. A secret without an id has the id `1`.
 */
export type AuditKeys = string | Uint8Array | readonly AuditKey[];

const FEWEST_BYTES = 32;

/** Lists the keys with their ids, the signing one first. */
export function listedKeys(keys: AuditKeys): readonly AuditKey[] {
  return typeof keys === 'string' || keys instanceof Uint8Array
    ? [{ id: '1', secret: keys }]
    : keys;
}

export function secretBytes(secret: string | Uint8Array): Uint8Array {
  if (typeof secret !== 'string') return secret;
  return secret.startsWith('base64:')
    ? Buffer.from(secret.slice('base64:'.length), 'base64')
    : Buffer.from(secret);
}

/** The form of the options of the audit. No finding ever quotes a secret. */
export const AUDIT = defineOptions<AuditOptions>(
  { key: CHECKED_BY_USE, arguments: oneOf('hash', 'redacted') },
  {
    wording: { unknown: 'There is no option "*".', option: 'It', place: ' *' },
    together: ({ key }, at) => keyFindings(key, `${at} key`),
  },
);

export function keyFindings(keys: AuditKeys | undefined, at: string): Finding[] {
  const listed = keys === undefined ? [] : listedKeys(keys);
  if (listed.length === 0) return [{ at, problem: 'There is no key.', remedy: GIVE_A_KEY }];
  return listed.flatMap(({ id, secret }, index) => {
    if (!id)
      return [
        {
          at,
          problem: `Key ${index + 1} has no id.`,
          remedy: 'Give every key an id that stays with it.',
        },
      ];
    if (listed.findIndex((other) => other.id === id) < index)
      return [
        {
          at,
          problem: `Two keys have the id "${id}".`,
          remedy: 'Give the new key an id of its own.',
        },
      ];
    if (secret && secretBytes(secret).length >= FEWEST_BYTES) return [];
    const key = listed === keys ? `The key "${id}"` : 'The key'; // a secret alone was given no id
    return [{ at, problem: `${key} has fewer than ${FEWEST_BYTES} bytes.`, remedy: GIVE_A_KEY }];
  });
}

const GIVE_A_KEY = `Pass ${FEWEST_BYTES} random bytes from the environment, e.g. the output of \`openssl rand -base64 32\`.`;
