import type { AuditHead } from '../../contracts/audit.js';
import type { OwedEntry } from '../../contracts/owed-entry.js';
import { canonicalIfJson, MAX_CHARACTERS, parsedJson } from './audit-entry.js';
import type { AuditKeyring } from './audit-keyring.js';

/** An entry that has everything but its place in the chain. */
export interface NotedEntry {
  readonly tenant: string;
  /** The time at which it happened: ISO 8601. */
  readonly at: string;
  readonly content: NotedContent;
  /**
   * A head that the chain had before: if the entry is in the chain, it is behind this one. Absent
   * if none was known.
   */
  readonly behind?: ChainPlace;
}

/** The part of an entry that the chain holds beside its place. */
export interface NotedContent {
  readonly entryId: string;
  readonly kind: string;
  readonly runId?: string;
}

export type ChainPlace = Pick<AuditHead, 'sequence' | 'hash'>;

/** Signs an entry to be kept elsewhere; undefined for one that the chain could not hold either. */
export function toOwed(entry: NotedEntry, keyring: AuditKeyring): OwedEntry | undefined {
  const { at, content } = entry;
  const text = canonicalIfJson(entry);
  if (text === undefined || text.length > MAX_CHARACTERS) return undefined;
  const { keyId } = keyring;
  const { entryId } = content;
  return { entryId, at, text, keyId, signature: keyring.sign(`owed:${text}`) };
}

/** Reads an entry that was kept elsewhere; undefined if it is not as it was signed. */
export function fromOwed(
  { entryId, at, text, keyId, signature }: OwedEntry,
  keyring: AuditKeyring,
): NotedEntry | undefined {
  if (!keyring.isSigned(`owed:${text}`, keyId, signature)) return undefined;
  const entry = parsedJson(text);
  return isNoted(entry) && entry.content.entryId === entryId && entry.at === at ? entry : undefined;
}

/** Tells whether a value has the fields of an entry; its signature vouches for the rest. */
function isNoted(value: unknown): value is NotedEntry {
  return (
    typeof value === 'object' &&
    value !== null &&
    'tenant' in value &&
    typeof value.tenant === 'string' &&
    'content' in value &&
    typeof value.content === 'object' &&
    value.content !== null
  );
}
