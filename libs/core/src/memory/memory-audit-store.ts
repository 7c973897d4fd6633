import { type AuditEntry, type AuditHead, AuditStore } from '../contracts/audit.js';

/**
 * Keeps the audit in memory, for tests and first steps. An audit never drops entries silently, so a
 * tenant's chain that is full, by default with 100,000 entries, accepts no more and the tenant's
 * calls are refused; other tenants are not affected.
 */
export class MemoryAuditStore extends AuditStore {
  private readonly chains = new Map<string, AuditEntry[]>();
  private readonly mostEntries: number;

  constructor({ mostEntries = MOST_ENTRIES }: { readonly mostEntries?: number } = {}) {
    super();
    this.mostEntries = mostEntries;
  }

  /**
   * Appends an entry at once, which is atomic.
   *
   * @throws Error for one entry too many
   */
  override append(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): void | Promise<void> {
    const chain = this.chains.get(tenant) ?? [];
    if (chain.length >= this.mostEntries)
      throw new Error(
        `The audit in memory holds ${chain.length} entries of one tenant and accepts no more. Bind a durable AuditStore.`,
      );
    chain.push(build(chain.at(-1)));
    this.chains.set(tenant, chain);
  }

  override head(tenant: string): Promise<AuditHead | undefined> {
    return Promise.resolve(this.chains.get(tenant)?.at(-1));
  }

  override read(
    tenant: string,
    { from, limit }: { readonly from: number; readonly limit: number },
  ): Promise<readonly AuditEntry[]> {
    const start = Math.max(from, 1) - 1;
    return Promise.resolve((this.chains.get(tenant) ?? []).slice(start, start + limit));
  }
}

const MOST_ENTRIES = 100_000;
