import { createHmac, createSecretKey, timingSafeEqual, type KeyObject } from 'node:crypto';
import { ConfigurationError } from '../protocol/errors.js';
import { keyFindings, listedKeys, secretBytes, type AuditKeys } from './audit.options.js';

/**
 * What a signature is for. Each begins differently, so that one made for one purpose never serves another: an entry is a JSON object and begins with
 * a brace.
 */
export type SignedText = `{${string}` | `head:${string}` | `arguments:${string}` | `result:${string}`;

/** The audit's secrets, where nothing can print them. Throws `ConfigurationError` for keys that are missing or too short. */
export class AuditKeyring {
  /** The key that signs from now on. */
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

  /** In lower-case hex. Throws for a key it does not have. */
  sign(text: SignedText, keyId = this.keyId): string {
    const secret = this.secrets.get(keyId);
    if (!secret) throw new Error(`The audit has no key "${keyId}".`);
    return createHmac('sha256', secret).update(text).digest('hex');
  }

  /** False as well for a key it does not have. */
  isSigned(text: SignedText, keyId: string, signature: string): boolean {
    if (!this.has(keyId)) return false;
    const expected = Buffer.from(this.sign(text, keyId));
    const given = Buffer.from(signature);
    return expected.length === given.length && timingSafeEqual(expected, given);
  }
}
