/**
 * The port that keeps the accounts of sessions, across sessions and, with a database behind it,
 * across processes.
 *
 * Adding and reading are one atomic operation, so that no addition is lost and two who add at once
 * are told different totals. An account expires where nothing was added for as long as it was to be
 * kept; the next addition begins it anew. Until then it is never dropped, since that would take its
 * taint away: a store without room throws.
 *
 * @example
 * { provide: AccountStore, useClass: RedisAccountStore }
 */
export abstract class AccountStore {
  /**
   * Adds to an account and returns it, this addition included. An empty addition reads it, and
   * begins the time anew for which it is kept.
   *
   * @param keptMs milliseconds, whole, more than 0
   */
  abstract add(key: AccountKey, addition: AccountAddition, keptMs: number): Promise<SessionAccount>;
}

/**
 * The time for which what was written into a store of the application is remembered, which is for
 * good: a hundred years, in milliseconds.
 */
export const LASTING_MS = 100 * 365 * 24 * 3_600_000;

/**
 * The key of an account: the principal, and what the application calls the place in which several
 * of its sessions belong together.
 */
export interface AccountKey {
  readonly tenant: string;
  readonly actorId: string;
  readonly scope: string;
}

/**
 * The part of sessions that outlives them, for one principal in one scope: opening another session
 * gets rid of none of it.
 */
export interface SessionAccount {
  /** True once untrusted content was read. */
  readonly isTainted: boolean;
  /** True once private content was read. */
  readonly hasReadPrivate: boolean;
  /** The number of refused calls in a row. */
  readonly refusals: number;
  /** The counts of budgets, by names that say what is counted. */
  readonly counts: Readonly<Record<string, number>>;
}

/** An addition to an account. What is left out stays as it is. */
export interface AccountAddition {
  readonly isTainted?: true;
  readonly hasReadPrivate?: true;
  /** `true` counts one more refusal in a row; `false` ends the row. */
  readonly isRefused?: boolean;
  /** Amounts to add; not negative. */
  readonly counts?: Readonly<Record<string, number>>;
}
