import type { JsonObject } from '@toolloop/protocol';
import type { AuditEntry, AuditHead, AuditStamp, SignedAuditHead } from '../../contracts/audit.js';
import { canonicalJson, sha256 } from '../../schema/canonical-json.js';
import type { AuditKeyring } from './audit-keyring.js';

/**
 * Makes the signed entry that follows a head.
 *
 * @throws RangeError if the entry is too large
 */
export function sealed(
  content: object,
  at: string,
  { tenant, sequence, hash }: AuditHead,
  keyring: AuditKeyring,
): AuditEntry {
  const { keyId } = keyring;
  const stamp = {
    version: 1,
    tenant,
    sequence: sequence + 1,
    at,
    keyId,
    previousHash: hash,
    hash: undefined,
  };
  const unsigned = { ...content, ...stamp };
  const ordered = inOrder(unsigned);
  const text = ordered ? (JSON.stringify(ordered) as `{${string}`) : canonicalObject(unsigned);
  if (text.length > MAX_CHARACTERS)
    throw new RangeError(
      `The entry has ${text.length} characters; at most ${MAX_CHARACTERS} are kept.`,
    );
  const entry = ordered ?? (JSON.parse(text) as Record<string, unknown>);
  entry['hash'] = keyring.sign(text);
  return (ordered ? Object.freeze(entry) : deepFrozen(entry)) as AuditEntry;
}

/**
 * The largest entry, in characters: more than any entry needs. Larger ones are neither written nor
 * read.
 */
export const MAX_CHARACTERS = 256 * 1024;

/** Returns the head of a tenant's empty chain, which differs from any other tenant's. */
export function genesisOf(tenant: string): AuditHead {
  return { tenant, sequence: 0, hash: sha256(`toolloop audit ${JSON.stringify(tenant)}`) };
}

/** Tells whether an entry was signed with the key that it names, and not changed since. */
export function isAuthentic({ hash, ...unsigned }: AuditStamp, keyring: AuditKeyring): boolean {
  const text = canonicalIfJson(unsigned);
  return text !== undefined && keyring.isSigned(text, unsigned.keyId, hash);
}

export function signedHead(
  { tenant, sequence, hash }: AuditHead,
  at: string,
  keyring: AuditKeyring,
): SignedAuditHead {
  const unsigned = { version: 1, tenant, sequence, hash, at, keyId: keyring.keyId } as const;
  return { ...unsigned, signature: keyring.sign(`head:${canonicalObject(unsigned)}`) };
}

export function isAuthenticHead(
  { signature, ...unsigned }: SignedAuditHead,
  keyring: AuditKeyring,
): boolean {
  return keyring.isSigned(`head:${canonicalObject(unsigned)}`, unsigned.keyId, signature);
}

/**
 * Writes an object as canonical JSON, the text that is signed and that a line of an export holds.
 * Undefined fields are left out.
 */
export function canonicalObject(value: object): `{${string}` {
  return canonicalJson(value as JsonObject) as `{${string}`;
}

/** Parses arguments from canonical JSON, without the hidden ones. */
export function shownArguments(canonical: string, hidden: readonly string[]): JsonObject {
  const args = JSON.parse(canonical) as JsonObject;
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => [
      name,
      hidden.includes(name) ? '[redacted]' : value,
    ]),
  );
}

/**
 * Writes an object from outside as canonical JSON; undefined if it is not JSON, or nested too
 * deeply.
 */
export function canonicalIfJson(value: object): `{${string}` | undefined {
  try {
    return canonicalObject(value);
  } catch {
    return undefined;
  }
}

/** Parses JSON; undefined if it is malformed. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Tells whether a value has the fields of a chain's link; its hash vouches for the rest. */
export function isLink(value: unknown): value is AuditStamp {
  if (typeof value !== 'object' || value === null) return false;
  const { version, tenant, sequence, keyId, previousHash, hash } = value as Record<string, unknown>;
  return (
    version === 1 &&
    Number.isSafeInteger(sequence) &&
    [tenant, keyId, previousHash, hash].every((field) => typeof field === 'string')
  );
}

export function isSignedHead(value: unknown): value is SignedAuditHead {
  if (typeof value !== 'object' || value === null) return false;
  const { version, tenant, sequence, at, keyId, hash, signature } = value as Record<
    string,
    unknown
  >;
  return (
    version === 1 &&
    Number.isSafeInteger(sequence) &&
    [tenant, at, keyId, hash, signature].every((field) => typeof field === 'string')
  );
}

/**
 * Copies an object whose names are in the order of canonical JSON, and what it holds as well,
 * frozen but for the object itself. Written by `JSON.stringify` the copy is the canonical text,
 * which takes a third of writing the object canonically and reading it again. Undefined for what
 * such a copy cannot stand for: a value that is not plain JSON, and names that an object keeps in
 * an order of its own.
 */
function inOrder(value: object): Record<string, unknown> | undefined {
  const copy: Record<string, unknown> = {};
  for (const name of Object.keys(value).toSorted()) {
    const part: unknown = (value as Record<string, unknown>)[name];
    if (part === undefined) continue;
    const kept = typeof part === 'string' ? part : copied(part);
    if (kept === undefined || name < FIRST_IN_ORDER || name === '__proto__') return undefined;
    copy[name] = kept;
  }
  return copy;
}

/**
 * Names that begin with a digit come before this one: an object lists numbers first, by their size.
 */
const FIRST_IN_ORDER = ':';

function copied(value: unknown): unknown {
  if (typeof value === 'string' || typeof value === 'boolean' || value === null) return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  if (Array.isArray(value)) return copiedList(value);
  if (typeof value !== 'object' || Object.getPrototypeOf(value) !== Object.prototype)
    return undefined;
  const copy = inOrder(value);
  return copy && Object.freeze(copy);
}

function copiedList(values: readonly unknown[]): readonly unknown[] | undefined {
  const copies = values.map(copied);
  return copies.includes(undefined) ? undefined : Object.freeze(copies);
}

function deepFrozen(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const parts = value as Record<string, unknown>;
  for (const name in parts) deepFrozen(parts[name]);
  return Object.freeze(value);
}
