import type { Finding } from '../protocol/errors.js';

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
