import { AccountStore, LASTING_MS } from '../contracts/account.js';
import type { AccountAddition, AccountKey, SessionAccount } from '../contracts/account.js';

const MOST_ACCOUNTS = 1_000;

interface KeptAccount extends SessionAccount {
  readonly expiresAt: number;
}

const NEW_ACCOUNT: SessionAccount = {
  isTainted: false,
  hasReadPrivate: false,
  refusals: 0,
  counts: {},
};

/**
 * Keeps the accounts of sessions in memory, for this process only: at most 1,000 of an actor at a
 * time, beyond which no further scope is taken.
 */
export class MemoryAccountStore extends AccountStore {
  /** The accounts by principal, then by scope, the least recently used first. */
  private readonly principals = new Map<string, Map<string, KeptAccount>>();
  /** Those that are kept for good, which would stand in the way of those that expire. */
  private readonly lasting = new Map<string, Map<string, KeptAccount>>();

  override add(
    { tenant, actorId, scope }: AccountKey,
    addition: AccountAddition,
    keptMs: number,
  ): Promise<SessionAccount> {
    const now = performance.now();
    const principal = JSON.stringify([tenant, actorId]);
    const principals = keptMs >= LASTING_MS ? this.lasting : this.principals;
    const own = principals.get(principal) ?? new Map<string, KeptAccount>();
    forgetExpired(own, now);
    const known = own.get(scope);
    if (!known && own.size >= MOST_ACCOUNTS)
      return Promise.reject(
        new Error(
          `One actor has ${MOST_ACCOUNTS} accounts of sessions in memory. Give their sessions fewer scopes, or bind a durable AccountStore.`,
        ),
      );
    const account = added(known && known.expiresAt > now ? known : NEW_ACCOUNT, addition);
    own.delete(scope);
    own.set(scope, { ...account, expiresAt: now + keptMs });
    principals.delete(principal);
    principals.set(principal, own);
    this.forgetUnused(now);
    return Promise.resolve(account);
  }

  /** Looks at the least recently used principals alone: those behind them were used later. */
  private forgetUnused(now: number): void {
    for (const [principal, own] of this.principals) {
      forgetExpired(own, now);
      if (own.size > 0) return;
      this.principals.delete(principal);
    }
  }
}

function forgetExpired(accounts: Map<string, KeptAccount>, now: number): void {
  for (const [scope, { expiresAt }] of accounts) {
    if (expiresAt > now) return;
    accounts.delete(scope);
  }
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
