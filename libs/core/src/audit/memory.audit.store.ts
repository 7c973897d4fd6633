import { AuditStore, type AuditEntry, type AuditHead } from '../protocol/audit.js';

const MOST_ENTRIES = 100_000;

/**
 * Keeps the audit for as long as the process lives: for tests and first steps. An audit never forgets in silence, so a tenant's chain that is full, by
 * default with 100,000 entries, takes no more and its calls are refused; other tenants go on.
 */
export class MemoryAuditStore extends AuditStore {
  private readonly chains = new Map<string, AuditEntry[]>();
  private readonly mostEntries: number;

  constructor({ mostEntries = MOST_ENTRIES }: { readonly mostEntries?: number } = {}) {
    super();
    this.mostEntries = mostEntries;
  }

  override append(tenant: string, build: (head: AuditHead | undefined) => AuditEntry): Promise<void> {
    return new Promise((resolve) => resolve(this.push(tenant, build)));
  }

  override head(tenant: string): Promise<AuditHead | undefined> {
    return Promise.resolve(this.chains.get(tenant)?.at(-1));
  }

  override read(tenant: string, { from, limit }: { readonly from: number; readonly limit: number }): Promise<readonly AuditEntry[]> {
    const start = Math.max(from, 1) - 1;
    return Promise.resolve((this.chains.get(tenant) ?? []).slice(start, start + limit));
  }

  /** Nothing comes between reading the head and appending to it: that is what makes it atomic. */
  private push(tenant: string, build: (head: AuditHead | undefined) => AuditEntry): void {
    const chain = this.chains.get(tenant) ?? [];
    if (chain.length >= this.mostEntries)
      throw new Error(`The audit in memory holds ${chain.length} entries of one tenant and takes no more. Bind a durable AuditStore.`);
    chain.push(build(chain.at(-1)));
    this.chains.set(tenant, chain);
  }
}
