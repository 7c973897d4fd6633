import { AuditStore, type AuditEntry, type AuditHead } from '@toolloop/core';
import type { Database } from '../database/database.js';
import { isStorable, storableKey, storedJson } from './storable.js';

/** Of appends that lost to another process; each time one of them has won. */
const MOST_ATTEMPTS = 1_000;

/** Keeps the audit in SQL, where triggers refuse to change or remove an entry. */
export class SqlAuditStore extends AuditStore {
  constructor(private readonly database: Database) {
    super();
  }

  /**
   * The primary key decides: of two entries that follow the same head one is kept, and the other is made anew. No lock is held meanwhile, so that a
   * process that freezes holds up nobody.
   */
  override async append(tenant: string, build: (head: AuditHead | undefined) => AuditEntry): Promise<void> {
    storableKey(tenant, 'tenant');
    for (let attempt = 1; attempt <= MOST_ATTEMPTS; attempt += 1) {
      const head = await this.head(tenant);
      const entry = build(head);
      if (entry.tenant !== tenant || entry.sequence !== (head?.sequence ?? 0) + 1)
        throw new Error(`The entry ${entry.sequence} of "${entry.tenant}" does not follow the last of "${tenant}".`);
      const kept = await this.database.query(
        'insert into toolloop.audit (tenant, sequence, hash, entry) values ($1, $2, $3, $4) on conflict do nothing returning sequence',
        [tenant, entry.sequence, entry.hash, storedJson(entry, 'entry')],
      );
      if (kept.length > 0 || (await this.isKept(entry))) return;
    }
    throw new Error(`Other processes appended first ${MOST_ATTEMPTS} times in a row.`);
  }

  /** Whether the entry at its place is this one, of an attempt whose answer was lost. */
  private async isKept({ tenant, sequence, hash }: AuditEntry): Promise<boolean> {
    const [known] = await this.database.query<Pick<AuditHead, 'hash'>>(
      'select hash from toolloop.audit where tenant = $1 and sequence = $2',
      [tenant, sequence],
    );
    return known?.hash === hash;
  }

  override async head(tenant: string): Promise<AuditHead | undefined> {
    if (!isStorable(tenant)) return undefined;
    const [head] = await this.database.query<AuditHead>(
      'select tenant, sequence, hash from toolloop.audit where tenant = $1 order by sequence desc limit 1',
      [tenant],
    );
    return head;
  }

  override async read(tenant: string, { from, limit }: { readonly from: number; readonly limit: number }): Promise<readonly AuditEntry[]> {
    if (!isStorable(tenant)) return [];
    const rows = await this.database.query<{ readonly entry: AuditEntry }>(
      'select entry from toolloop.audit where tenant = $1 and sequence >= $2 order by sequence limit $3',
      [tenant, from, limit],
    );
    return rows.map(({ entry }) => entry);
  }
}
