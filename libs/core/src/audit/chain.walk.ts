import type { AuditHead, AuditStamp } from '../protocol/audit.js';
import { genesisOf, isAuthentic } from './audit-chain.js';
import type { AuditKeyring } from './audit.keyring.js';
import { isLink } from './from-audit-json.js';

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
