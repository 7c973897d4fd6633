import type { AuthorisedCall } from '../../call/call.js';
import { type AccountStore, LASTING_MS, type SessionAccount } from '../../contracts/account.js';

/**
 * The stores of the application that tools write into and read from, as far as someone outside had
 * something written into them. What is known of one is an account of its own, so that every process
 * knows it, and no restart forgets it where accounts are kept in a database.
 */
export class WrittenStores {
  constructor(private readonly accounts: Pick<AccountStore, 'add'>) {}

  /**
   * Notes where a call is about to write what someone outside may have chosen.
   *
   * @throws {StorageUnavailableError} Where that cannot be noted: then the call is not made.
   */
  async noteWrite({ scope, input }: AuthorisedCall, store: string): Promise<void> {
    const isOfOutside = scope.flow.integrity === 'untrusted' || (input.outside?.length ?? 0) > 0;
    if (isOfOutside) await this.add(scope.run.tenant, store, { [WRITTEN]: 1 });
  }

  /** Returns whether something was written into a store that no person has endorsed since. */
  async isOfOutside(tenant: string, store: string): Promise<boolean> {
    return unendorsedIn(await this.add(tenant, store, {})) > 0;
  }

  /** Trusts what is in a store by now. Resolves to the number of writes that this is about. */
  async endorse(tenant: string, store: string): Promise<number> {
    const writes = unendorsedIn(await this.add(tenant, store, {}));
    // one that came meanwhile is not among them
    if (writes > 0) await this.add(tenant, store, { [ENDORSED]: writes });
    return writes;
  }

  private add(
    tenant: string,
    store: string,
    counts: Readonly<Record<string, number>>,
  ): Promise<SessionAccount> {
    return this.accounts.add(
      { tenant, actorId: OF_STORES, scope: `store ${store}` },
      { counts },
      LASTING_MS,
    );
  }
}

/** The actor of the accounts of stores, which all actors of a tenant share. */
const OF_STORES = '*';
const WRITTEN = 'written from outside';
const ENDORSED = 'endorsed';

function unendorsedIn({ counts }: SessionAccount): number {
  return (counts[WRITTEN] ?? 0) - (counts[ENDORSED] ?? 0);
}
