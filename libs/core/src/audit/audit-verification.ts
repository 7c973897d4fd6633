import type { AuditHead, AuditStamp, SignedAuditHead } from '../contracts/audit.js';
import { genesisOf, isAuthentic, isAuthenticHead, isLink } from './audit-entry.js';
import { AuditKeyring, type AuditKeys } from './audit-options.js';

/** What a chain is checked with. */
export interface AuditVerificationOptions {
  readonly keys: AuditKeys;
  /** A head that was exported earlier. Without one, entries cut from the end do not show. */
  readonly head?: SignedAuditHead;
  /** Whose chain it must be. @default the head's, or else the first entry's */
  readonly tenant?: string;
}

/** A chain that holds, or the first place where it does not. */
export type AuditVerification =
  | { readonly valid: true; readonly tenant: string | undefined; readonly entries: number }
  | {
      readonly valid: false;
      /** Which entry the chain should have had there, from 1. */
      readonly sequence: number;
      readonly reason: AuditBreak;
      readonly message: string;
    };

/**
 * Walks one tenant's chain from its first entry, holding one entry at a time. The entries may be anything at all, since they come from where somebody
 * could have changed them. Throws `ConfigurationError` for keys that are none.
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
  return reason ? broken(walk.expected, reason) : { valid: true, tenant: walk.tenant, entries: walk.expected - 1 };
}

const MESSAGES: Readonly<Record<AuditBreak, string>> = {
  malformed: 'is not an entry as the audit writes them.',
  unknown_key: 'is signed by a key that was not given.',
  changed: 'was changed or made by somebody without the key; or another key was given under its id.',
  wrong_tenant: 'belongs to another tenant.',
  removed: 'is missing.',
  reordered: 'is out of its place; it stands further on.',
  repeated: 'is missing where an earlier one stands again.',
  forked: 'is genuine but of another course of the chain, as after a backup was put back.',
  cut: 'and all after it were cut from the end: the head knows of them.',
  bad_head: 'is what the head names, but no key given has signed that head.',
};

function broken(sequence: number, reason: AuditBreak): AuditVerification {
  return { valid: false, sequence, reason, message: `Entry ${sequence} ${MESSAGES[reason]}` };
}

/** What can be wrong with a chain. */
export type AuditBreak =
  'malformed' | 'unknown_key' | 'changed' | 'wrong_tenant' | 'removed' | 'reordered' | 'repeated' | 'forked' | 'cut' | 'bad_head';

/** The way along one tenant's chain, from its first entry on; it holds one entry at a time. */
export class ChainWalk {
  private last: AuditHead | undefined;
  private isLooking = false;

  constructor(
    private readonly keyring: AuditKeyring,
    /** Whose chain it is; the first genuine entry's, where nobody said. */
    public tenant: string | undefined,
    private readonly head: AuditHead | undefined,
  ) {}

  get expected(): number {
    return (this.last?.sequence ?? 0) + 1;
  }

  /** What is wrong with the next entry. After a gap it goes on looking for the entry that is missing. */
  take(entry: unknown): AuditBreak | undefined {
    if (this.isLooking) return this.isMissing(entry) ? 'reordered' : undefined;
    if (!isLink(entry)) return 'malformed';
    const reason = this.breakOf(entry);
    if (reason === 'removed') this.isLooking = true;
    else if (!reason) this.last = entry;
    return this.isLooking ? undefined : reason;
  }

  end(): AuditBreak | undefined {
    if (this.isLooking) return 'removed';
    return this.head && this.head.sequence >= this.expected ? 'cut' : undefined;
  }

  private breakOf(entry: AuditStamp): AuditBreak | undefined {
    if (!this.keyring.has(entry.keyId)) return 'unknown_key';
    if (!isAuthentic(entry, this.keyring)) return 'changed';
    this.tenant ??= entry.tenant;
    if (entry.tenant !== this.tenant) return 'wrong_tenant';
    if (entry.sequence > this.expected) return 'removed';
    if (entry.sequence < this.expected) return 'repeated';
    const { hash: previousHash } = this.last ?? genesisOf(this.tenant);
    return entry.previousHash === previousHash && !this.isDeniedByHead(entry) ? undefined : 'forked';
  }

  private isDeniedByHead({ sequence, hash }: AuditStamp): boolean {
    return this.head?.sequence === sequence && this.head.hash !== hash;
  }

  private isMissing(entry: unknown): boolean {
    return isLink(entry) && entry.sequence === this.expected && entry.tenant === this.tenant && isAuthentic(entry, this.keyring);
  }
}
