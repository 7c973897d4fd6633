import { type AuditEntry, type AuditHead, AuditStore } from '../contracts/audit.js';
import { tellQuickStore, tellStore } from './store-calls.js';

/** Bounds the store of the audit, in whose chains each process appends. */
export class BoundedAudit extends AuditStore {
  override readonly storesTogether: boolean;

  constructor(private readonly store: AuditStore) {
    super();
    this.storesTogether = store.storesTogether;
  }

  /**
   * An entry that an attempt without an answer has made may be kept yet, at the place for which it
   * was made. It is made anew only once another entry is there.
   */
  override append(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): void | Promise<void> {
    let last: AuditEntry | undefined;
    let newest = 1;
    const made: AuditEntry[] = [];
    return tellQuickStore('An entry of the audit', (attempt) => {
      newest = attempt;
      if (attempt > 1 && last) made.push(last);
      const make = (head: AuditHead | undefined): AuditEntry => {
        if (attempt !== newest) throw new Error('This attempt was given up, and another is made.');
        if (made.some(({ sequence }) => sequence <= (head?.sequence ?? 0)))
          throw new MadeBeforeError();
        return (last = build(head));
      };
      return attempt === 1 ? this.store.append(tenant, make) : this.appendAgain(tenant, make, made);
    });
  }

  override head(tenant: string): Promise<AuditHead | undefined> {
    return tellStore('The head of the audit', () => this.store.head(tenant));
  }

  override read(
    tenant: string,
    page: { readonly from: number; readonly limit: number },
  ): Promise<readonly AuditEntry[]> {
    return tellStore('A page of the audit', () => this.store.read(tenant, page));
  }

  private async appendAgain(
    tenant: string,
    make: (head: AuditHead | undefined) => AuditEntry,
    made: AuditEntry[],
  ): Promise<void> {
    for (let look = 1; ; look += 1) {
      if (await this.isKept(tenant, made)) return;
      try {
        return await this.store.append(tenant, make);
      } catch (error) {
        if (!(error instanceof MadeBeforeError) || look === MOST_LOOKS) throw error;
      }
    }
  }

  /** Tells if one of the entries is kept, and drops those whose place another entry has. */
  private async isKept(tenant: string, made: AuditEntry[]): Promise<boolean> {
    for (const entry of made.splice(0)) {
      const [there] = await this.store.read(tenant, { from: entry.sequence, limit: 1 });
      if (there?.hash === entry.hash) return true;
      if (there?.sequence !== entry.sequence) made.push(entry);
    }
    return false;
  }
}

/** The looks at a chain that grows between a look and an append. */
const MOST_LOOKS = 100;

/**
 * Thrown where an entry is to be made while it is unknown who has the place for which it was made
 * before.
 */
class MadeBeforeError extends Error {
  override readonly name = 'MadeBeforeError';
}
