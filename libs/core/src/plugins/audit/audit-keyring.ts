import { createHmac, createSecretKey, hash, type KeyObject, timingSafeEqual } from 'node:crypto';
import { ConfigurationError } from '@toolloop/protocol';
import { type AuditKeys, keyFindings, listedKeys, secretBytes } from './audit-options.js';

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

/**
 * A text that is signed. Each purpose has a beginning of its own, so that a signature for one never
 * fits another: an entry is a JSON object and begins with a brace.
 */
export type SignedText =
  `{${string}` | `head:${string}` | `owed:${string}` | `arguments:${string}` | `result:${string}`;

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
