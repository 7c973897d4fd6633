import type { AuditEntry, AuditStamp, SignedAuditHead } from '../protocol/audit.js';
import type { JsonObject } from '../protocol/json.js';
import { canonicalJson } from '../schema/canonical-json.js';

/** An object of JSON as canonical JSON: what is signed, and what a line of an export is. Undefined fields are left out. */
export function canonicalObject(value: object): `{${string}` {
  return canonicalJson(value as JsonObject) as `{${string}`;
}

/** The arguments that canonical JSON stands for, without the hidden ones. */
export function shownArguments(canonical: string, hidden: readonly string[]): JsonObject {
  const args = JSON.parse(canonical) as JsonObject;
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [name, hidden.includes(name) ? '[redacted]' : value]));
}

/** An entry of its own, whatever is done to what it was made of. */
export function frozenEntry(canonical: string, hash: string): AuditEntry {
  const entry = JSON.parse(canonical) as Record<string, unknown>;
  entry['hash'] = hash;
  return deepFrozen(entry) as AuditEntry;
}

/** The same of what somebody else made, which may be no JSON, or nested too deeply to be walked through: then undefined. */
export function canonicalIfJson(value: object): `{${string}` | undefined {
  try {
    return canonicalObject(value);
  } catch {
    return undefined;
  }
}

/** The value of a text that is JSON, else undefined. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Whether a value can be looked at as a link of a chain; what else it holds is vouched for by its hash. */
export function isLink(value: unknown): value is AuditStamp {
  if (typeof value !== 'object' || value === null) return false;
  const { version, tenant, sequence, keyId, previousHash, hash } = value as Record<string, unknown>;
  return version === 1 && Number.isSafeInteger(sequence) && [tenant, keyId, previousHash, hash].every((field) => typeof field === 'string');
}

export function isSignedHead(value: unknown): value is SignedAuditHead {
  if (typeof value !== 'object' || value === null) return false;
  const { version, tenant, sequence, at, keyId, hash, signature } = value as Record<string, unknown>;
  return (
    version === 1 && Number.isSafeInteger(sequence) && [tenant, at, keyId, hash, signature].every((field) => typeof field === 'string')
  );
}

function deepFrozen(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const parts = value as Record<string, unknown>;
  for (const name in parts) deepFrozen(parts[name]);
  return Object.freeze(value);
}
