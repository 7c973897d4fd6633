import { TenantDirectory } from '../contracts/tenant-directory.js';
import { askStore } from './store-calls.js';

export class BoundedTenants extends TenantDirectory {
  /**
   * Until when the tenants that were found count as there, in milliseconds by the clock; the oldest
   * first.
   */
  private readonly known = new Map<string, number>();

  constructor(private readonly directory: TenantDirectory) {
    super();
  }

  override async exists(tenant: string): Promise<boolean> {
    const until = this.known.get(tenant) ?? 0;
    if (Date.now() < until) return true;
    this.known.delete(tenant);
    const answer: unknown = await askStore(() => this.directory.exists(tenant));
    if (answer !== true) return false;
    this.known.set(tenant, Date.now() + TENANT_TRUST_MS);
    const [oldest] = this.known.keys();
    if (this.known.size > MOST_KNOWN_TENANTS && oldest !== undefined) this.known.delete(oldest);
    return true;
  }
}

/** The time for which a tenant that was found counts as there. */
const TENANT_TRUST_MS = 60_000;
const MOST_KNOWN_TENANTS = 10_000;
