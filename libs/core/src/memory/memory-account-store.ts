import {
  type AccountAddition,
  type AccountKey,
  AccountStore,
  LASTING_MS,
  type SessionAccount,
} from '../contracts/account.js';
import { BoundedTable } from './bounded-table.js';

/**
 * Keeps the accounts of sessions in memory, for this process only: at most 1,000 of an actor at a
 * time, beyond which no further scope is taken.
 */
export class MemoryAccountStore extends AccountStore {
  private readonly expiring = newTable();
  /** Those that are kept for good, which would stand in the way of those that expire. */
  private readonly lasting = newTable();

  override add(
    { tenant, actorId, scope }: AccountKey,
    addition: AccountAddition,
    keptMs: number,
  ): Promise<SessionAccount> {
    const principal = JSON.stringify([tenant, actorId]);
    const accounts = keptMs >= LASTING_MS ? this.lasting : this.expiring;
    const known = accounts.get(principal, scope);
    if (!known && !accounts.makeRoom(principal))
      return Promise.reject(
        new Error(
          `One actor has ${MAX_ACCOUNTS} accounts of sessions in memory. Give their sessions fewer scopes, or bind a durable AccountStore.`,
        ),
      );
    const account = added(known ?? NEW_ACCOUNT, addition);
    accounts.renew(principal, scope, { ...account, expiresAt: performance.now() + keptMs });
    return Promise.resolve(account);
  }
}

const MAX_ACCOUNTS = 1_000;

const NEW_ACCOUNT: SessionAccount = {
  isTainted: false,
  hasReadPrivate: false,
  refusals: 0,
  counts: {},
};

interface KeptAccount extends SessionAccount {
  readonly expiresAt: number;
}

/** The accounts by principal and scope, the least recently used first. */
function newTable(): BoundedTable<KeptAccount> {
  return new BoundedTable({
    most: MAX_ACCOUNTS,
    mayGo: () => false,
    isOver: ({ expiresAt }) => expiresAt <= performance.now(),
  });
}

function added(
  { isTainted, hasReadPrivate, refusals, counts }: SessionAccount,
  addition: AccountAddition,
): SessionAccount {
  const totals = new Map(Object.entries(counts));
  for (const [name, amount] of Object.entries(addition.counts ?? {}))
    totals.set(name, (totals.get(name) ?? 0) + amount);
  return {
    isTainted: isTainted || addition.isTainted === true,
    hasReadPrivate: hasReadPrivate || addition.hasReadPrivate === true,
    refusals: addition.isRefused === undefined ? refusals : addition.isRefused ? refusals + 1 : 0,
    counts: Object.fromEntries(totals),
  };
}
