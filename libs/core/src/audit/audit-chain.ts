import type { AuditEntry, AuditHead, AuditStamp, SignedAuditHead } from '../protocol/audit.js';
import { sha256 } from '../schema/canonical-json.js';
import type { AuditKeyring } from './audit.keyring.js';
import { canonicalIfJson, canonicalObject, frozenEntry } from './from-audit-json.js';

/** More than any entry needs; what is larger is neither kept nor read. */
const MOST_CHARACTERS = 256 * 1024;

/** Where a tenant's chain begins, so that the start of one is not the start of another's. */
export function genesisOf(tenant: string): AuditHead {
  return { tenant, sequence: 0, hash: sha256(`toolloop audit ${JSON.stringify(tenant)}`) };
}

/** The entry that follows a head. Throws for one that is too large to be kept. */
export function sealed(content: object, at: string, { tenant, sequence, hash }: AuditHead, keyring: AuditKeyring): AuditEntry {
  const { keyId } = keyring;
  const stamp = { version: 1, tenant, sequence: sequence + 1, at, keyId, previousHash: hash, hash: undefined };
  const unsigned = canonicalObject({ ...content, ...stamp });
  if (unsigned.length > MOST_CHARACTERS)
    throw new RangeError(`The entry has ${unsigned.length} characters; at most ${MOST_CHARACTERS} are kept.`);
  return frozenEntry(unsigned, keyring.sign(unsigned));
}

/** Whether whoever made the entry had the key that it names, and nothing was changed since. */
export function isAuthentic({ hash, ...unsigned }: AuditStamp, keyring: AuditKeyring): boolean {
  const text = canonicalIfJson(unsigned);
  return text !== undefined && keyring.isSigned(text, unsigned.keyId, hash);
}

export function signedHead({ tenant, sequence, hash }: AuditHead, at: string, keyring: AuditKeyring): SignedAuditHead {
  const unsigned = { version: 1, tenant, sequence, hash, at, keyId: keyring.keyId } as const;
  return { ...unsigned, signature: keyring.sign(`head:${canonicalObject(unsigned)}`) };
}

export function isAuthenticHead({ signature, ...unsigned }: SignedAuditHead, keyring: AuditKeyring): boolean {
  return keyring.isSigned(`head:${canonicalObject(unsigned)}`, unsigned.keyId, signature);
}
