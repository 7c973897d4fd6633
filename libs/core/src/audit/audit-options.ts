import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { ConfigurationError, type Finding } from '@toolloop/protocol';
import { CHECKED_BY_USE, defineOptions, oneOf } from '../findings/options.js';

/** A secret, and the id of it that entries carry. */
export interface AuditKey {
  readonly id: string;
  readonly secret: string | Uint8Array;
}

/**
 * The secret, or the current secret and all former ones: the first signs, the others only verify. A secret has at least 32 bytes; a string counts as its UTF-8
 * bytes, or after `base64:` as the bytes that it encodes. A secret without an id has the id `1`.
 */
export type AuditKeys = string | Uint8Array | readonly AuditKey[];

/** Options of the audit. */
export interface AuditOptions {
  /** The key that signs the entries. It is never stored with them; keep it outside their database. */
  readonly key: AuditKeys;
  /** The form in which arguments are stored: `redacted` stores those that are not hidden, beside the hash of all. @default 'hash' */
  readonly arguments?: 'hash' | 'redacted';
}

const FEWEST_BYTES = 32;

/** Lists the keys with their ids, the signing one first. */
export function listedKeys(keys: AuditKeys): readonly AuditKey[] {
  return typeof keys === 'string' || keys instanceof Uint8Array ? [{ id: '1', secret: keys }] : keys;
}

export function secretBytes(secret: string | Uint8Array): Uint8Array {
  if (typeof secret !== 'string') return secret;
  return secret.startsWith('base64:') ? Buffer.from(secret.slice('base64:'.length), 'base64') : Buffer.from(secret);
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
    if (!id) return [{ at, problem: `Key ${index + 1} has no id.`, remedy: 'Give every key an id that stays with it.' }];
    if (listed.findIndex((other) => other.id === id) < index)
      return [{ at, problem: `Two keys have the id "${id}".`, remedy: 'Give the new key an id of its own.' }];
    if (secret && secretBytes(secret).length >= FEWEST_BYTES) return [];
    const key = listed === keys ? `The key "${id}"` : 'The key'; // a secret alone was given no id
    return [{ at, problem: `${key} has fewer than ${FEWEST_BYTES} bytes.`, remedy: GIVE_A_KEY }];
  });
}

const GIVE_A_KEY = `Pass ${FEWEST_BYTES} random bytes from the environment, e.g. the output of \`openssl rand -base64 32\`.`;

/** A text that is signed. Each purpose has a beginning of its own, so that a signature for one never fits another: an entry is a JSON object and begins with a brace. */
export type SignedText = `{${string}` | `head:${string}` | `arguments:${string}` | `result:${string}`;

/**
 * The audit's secrets, which cannot be printed.
 *
 * @throws ConfigurationError for keys that are missing or too short
 */
export class AuditKeyring {
  /** The id of the key that signs. */
  readonly keyId: string;
  private readonly secrets: ReadonlyMap<string, KeyObject>;

  constructor(keys: AuditKeys) {
    const findings = keyFindings(keys, 'audit key');
    if (findings.length > 0) throw new ConfigurationError(findings);
    this.secrets = new Map(listedKeys(keys).map(({ id, secret }) => [id, createSecretKey(secretBytes(secret))]));
    [this.keyId = ''] = this.secrets.keys();
  }

  has(keyId: string): boolean {
    return this.secrets.has(keyId);
  }

  /**
   * Signs a text, in lower-case hex.
   *
   * @throws Error for an unknown key
   */
  sign(text: SignedText, keyId = this.keyId): string {
    const secret = this.secrets.get(keyId);
    if (!secret) throw new Error(`The audit has no key "${keyId}".`);
    return createHmac('sha256', secret).update(text).digest('hex');
  }

  /** Tells whether a signature is valid; false for an unknown key as well. */
  isSigned(text: SignedText, keyId: string, signature: string): boolean {
    if (!this.has(keyId)) return false;
    const expected = Buffer.from(this.sign(text, keyId));
    const given = Buffer.from(signature);
    return expected.length === given.length && timingSafeEqual(expected, given);
  }
}
