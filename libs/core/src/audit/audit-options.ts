import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { ConfigurationError, type Finding } from '@toolloop/protocol';

/** A secret and the name that entries carry of it. */
export interface AuditKey {
  readonly id: string;
  readonly secret: string | Uint8Array;
}

/**
 * The secret, or all secrets there have been: the first signs, the others only verify. A secret has at least 32 bytes; a string stands for its UTF-8
 * bytes, or after `base64:` for what it encodes. One that comes without an id has the id `1`.
 */
export type AuditKeys = string | Uint8Array | readonly AuditKey[];

/** How the audit is kept. */
export interface AuditOptions {
  /** Never stored with the entries; keep it outside their database. */
  readonly key: AuditKeys;
  /** `redacted` keeps, beside their hash, the arguments that are not hidden. @default 'hash' */
  readonly arguments?: 'hash' | 'redacted';
}

const FEWEST_BYTES = 32;

/** The keys with their ids, the signing one first. */
export function listedKeys(keys: AuditKeys): readonly AuditKey[] {
  return typeof keys === 'string' || keys instanceof Uint8Array ? [{ id: '1', secret: keys }] : keys;
}

export function secretBytes(secret: string | Uint8Array): Uint8Array {
  if (typeof secret !== 'string') return secret;
  return secret.startsWith('base64:') ? Buffer.from(secret.slice('base64:'.length), 'base64') : Buffer.from(secret);
}

/** What is wrong with the options, without ever quoting a secret. */
export function auditFindings(options: AuditOptions, at: string): Finding[] {
  const mode: unknown = options.arguments;
  const isKnown = mode === undefined || mode === 'hash' || mode === 'redacted';
  return [
    ...keyFindings(options.key, `${at} key`),
    ...(isKnown ? [] : [{ at: `${at} arguments`, problem: 'It has neither of its two values.', remedy: "Say 'hash' or 'redacted'." }]),
  ];
}

export function keyFindings(keys: AuditKeys | undefined, at: string): Finding[] {
  const listed = keys === undefined ? [] : listedKeys(keys);
  if (listed.length === 0) return [{ at, problem: 'There is no key.', remedy: GIVE_A_KEY }];
  return listed.flatMap(({ id, secret }, index) => {
    if (!id) return [{ at, problem: `Key ${index + 1} has no id.`, remedy: 'Give every key an id that stays with it.' }];
    if (listed.findIndex((other) => other.id === id) < index)
      return [{ at, problem: `Two keys have the id "${id}".`, remedy: 'Give the new key an id of its own.' }];
    if (secret && secretBytes(secret).length >= FEWEST_BYTES) return [];
    return [{ at, problem: `The key "${id}" has fewer than ${FEWEST_BYTES} bytes.`, remedy: GIVE_A_KEY }];
  });
}

const GIVE_A_KEY = `Give ${FEWEST_BYTES} random bytes from the environment, e.g. what \`openssl rand -base64 32\` prints.`;

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
