import { createHmac, createSecretKey, hash, type KeyObject, timingSafeEqual } from 'node:crypto';
import { ConfigurationError, type Finding } from '@toolloop/protocol';
import { CHECKED_BY_USE, defineOptions, oneOf } from '../findings/options.js';

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

/**
 * A text that is signed. Each purpose has a beginning of its own, so that a signature for one never
 * fits another: an entry is a JSON object and begins with a brace.
 */
export type SignedText =
  `{${string}` | `head:${string}` | `arguments:${string}` | `result:${string}`;

/**
 * The audit's secrets, which cannot be printed.
 *
 * @throws ConfigurationError for keys that are missing or too short
 */
export class AuditKeyring {
  /** The id of the key that signs. */
  readonly keyId: string;
  readonly #signatures: ReadonlyMap<string, Signature>;

  constructor(keys: AuditKeys) {
    const findings = keyFindings(keys, 'audit key');
    if (findings.length > 0) throw new ConfigurationError(findings);
    this.#signatures = new Map(
      listedKeys(keys).map(({ id, secret }) => [id, new Signature(secretBytes(secret))]),
    );
    [this.keyId = ''] = this.#signatures.keys();
  }

  has(keyId: string): boolean {
    return this.#signatures.has(keyId);
  }

  /**
   * Signs a text, in lower-case hex.
   *
   * @throws Error for an unknown key
   */
  sign(text: SignedText, keyId = this.keyId): string {
    const signature = this.#signatures.get(keyId);
    if (!signature) throw new Error(`The audit has no key "${keyId}".`);
    return signature.of(text);
  }

  /** Tells whether a signature is valid; false for an unknown key as well. */
  isSigned(text: SignedText, keyId: string, signature: string): boolean {
    if (!this.has(keyId)) return false;
    const expected = Buffer.from(this.sign(text, keyId));
    const given = Buffer.from(signature);
    return expected.length === given.length && timingSafeEqual(expected, given);
  }
}

const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
/** The characters of a text that is hashed in a buffer of this process: nearly all are shorter. */
const MOST_IN_PLACE = 5_000;

/**
 * HMAC-SHA256 under one key. A short text is written behind the key's own beginning and hashed in
 * two calls (RFC 2104), which takes half as long as an `Hmac`: that one is a stream, and most of
 * its time goes into making it.
 */
class Signature {
  readonly #key: KeyObject;
  readonly #inner = Buffer.alloc(BLOCK_BYTES + 3 * MOST_IN_PLACE);
  readonly #outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES);

  constructor(secret: Uint8Array) {
    this.#key = createSecretKey(secret);
    const block = Buffer.alloc(BLOCK_BYTES);
    block.set(secret.length > BLOCK_BYTES ? hash('sha256', secret, 'buffer') : secret);
    for (const [index, byte] of block.entries()) {
      this.#inner[index] = byte ^ 0x36;
      this.#outer[index] = byte ^ 0x5c;
    }
  }

  /** Signs a text, in lower-case hex. */
  of(text: string): string {
    if (text.length > MOST_IN_PLACE)
      return createHmac('sha256', this.#key).update(text).digest('hex');
    const inner = this.#inner;
    const end = BLOCK_BYTES + inner.write(text, BLOCK_BYTES);
    this.#outer.write(hash('sha256', inner.subarray(0, end)), BLOCK_BYTES, 'hex');
    return hash('sha256', this.#outer);
  }
}
