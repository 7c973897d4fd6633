import type { AuditHead, AuditStamp, SignedAuditHead } from '../../contracts/audit.js';
import { genesisOf, isAuthentic, isAuthenticHead, isLink } from './audit-entry.js';
import { AuditKeyring } from './audit-keyring.js';
import { type AuditKeys } from './audit-options.js';

/** The result of a verification: a valid chain, or the first place where it is broken. */
export type AuditVerification =
  | { readonly valid: true; readonly tenant: string | undefined; readonly entries: number }
  | {
      readonly valid: false;
      /** The number of the entry that the chain should have there, from 1. */
      readonly sequence: number;
      readonly reason: AuditBreak;
      readonly message: string;
    };

/** Options of {@link verifyAudit}. */
export interface AuditVerificationOptions {
  readonly keys: AuditKeys;
  /** A head that was exported earlier. Without one, entries cut from the end are not detected. */
  readonly head?: SignedAuditHead;
  /** The tenant of the chain. @default the head's, or else the first entry's */
  readonly tenant?: string;
}

/**
 * Verifies one tenant's chain from its first entry, with one entry in memory at a time. The entries
 * are unchecked, since they come from a place where they could have been changed.
 *
 * @throws ConfigurationError for missing or short keys
 * @example
 * const verification = await verifyAudit(readAuditLines(createReadStream('acme.jsonl')), {
 *   keys: process.env.AUDIT_KEY,
 *   head,
 * });
 */
export async function verifyAudit(
  entries: Iterable<unknown> | AsyncIterable<unknown>,
  { keys, head, tenant = head?.tenant }: AuditVerificationOptions,
): Promise<AuditVerification> {
  const keyring = new AuditKeyring(keys);
  if (head && !isAuthenticHead(head, keyring)) return broken(head.sequence, 'bad_head');
  if (head && head.tenant !== tenant) return broken(head.sequence, 'wrong_tenant');
  const walk = new ChainWalk(keyring, tenant, head);
  for await (const entry of entries) {
    const reason = walk.take(entry);
    if (reason) return broken(walk.expected, reason);
  }
  const reason = walk.end();
  return reason
    ? broken(walk.expected, reason)
    : { valid: true, tenant: walk.tenant, entries: walk.expected - 1 };
}

const MESSAGES: Readonly<Record<AuditBreak, string>> = {
  malformed: 'is not an entry as the audit writes them.',
  unknown_key: 'is signed by a key that was not given.',
  changed: 'was changed, or signed with another key under the same id.',
  wrong_tenant: 'belongs to another tenant.',
  removed: 'is missing.',
  reordered: 'is out of its place: it comes later.',
  repeated: 'is missing, and an earlier entry is repeated in its place.',
  forked: 'is genuine but belongs to another branch of the chain, as after a backup was restored.',
  cut: 'and all after it were cut from the end: the head counts them.',
  bad_head: 'is the last one by the head, but none of the given keys has signed that head.',
};

function broken(sequence: number, reason: AuditBreak): AuditVerification {
  return { valid: false, sequence, reason, message: `Entry ${sequence} ${MESSAGES[reason]}` };
}

/** The way in which a chain is broken. */
export type AuditBreak =
  | 'malformed'
  | 'unknown_key'
  | 'changed'
  | 'wrong_tenant'
  | 'removed'
  | 'reordered'
  | 'repeated'
  | 'forked'
  | 'cut'
  | 'bad_head';

/** The state of a verification along one tenant's chain. */
export class ChainWalk {
  private last: AuditHead | undefined;
  private isLooking = false;

  constructor(
    private readonly keyring: AuditKeyring,
    /** The tenant of the chain; the first genuine entry's, if none was given. */
    public tenant: string | undefined,
    private readonly head: AuditHead | undefined,
  ) {}

  get expected(): number {
    return (this.last?.sequence ?? 0) + 1;
  }

  /**
   * Checks the next entry, and returns how it breaks the chain. After a gap it continues to look
   * for the missing entry.
   */
  take(entry: unknown): AuditBreak | undefined {
    if (this.isLooking) return this.isMissing(entry) ? 'reordered' : undefined;
    if (!isLink(entry)) return 'malformed';
    const reason = this.findBreak(entry);
    if (reason === 'removed') this.isLooking = true;
    else if (!reason) this.last = entry;
    return this.isLooking ? undefined : reason;
  }

  end(): AuditBreak | undefined {
    if (this.isLooking) return 'removed';
    return this.head && this.head.sequence >= this.expected ? 'cut' : undefined;
  }

  private findBreak(entry: AuditStamp): AuditBreak | undefined {
    if (!this.keyring.has(entry.keyId)) return 'unknown_key';
    if (!isAuthentic(entry, this.keyring)) return 'changed';
    this.tenant ??= entry.tenant;
    if (entry.tenant !== this.tenant) return 'wrong_tenant';
    if (entry.sequence > this.expected) return 'removed';
    if (entry.sequence < this.expected) return 'repeated';
    const { hash: previousHash } = this.last ?? genesisOf(this.tenant);
    return entry.previousHash === previousHash && !this.isDeniedByHead(entry)
      ? undefined
      : 'forked';
  }

  private isDeniedByHead({ sequence, hash }: AuditStamp): boolean {
    return this.head?.sequence === sequence && this.head.hash !== hash;
  }

  private isMissing(entry: unknown): boolean {
    return (
      isLink(entry) &&
      entry.sequence === this.expected &&
      entry.tenant === this.tenant &&
      isAuthentic(entry, this.keyring)
    );
  }
}
