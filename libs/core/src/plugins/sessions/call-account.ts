import type { MessageLabels, ValueOrigin } from '@toolloop/protocol';
import { outsideOfRuns } from '../../call/store-calls.js';
import type { Toolset } from '../../catalog/toolset.js';
import type {
  AccountAddition,
  AccountKey,
  AccountStore,
  SessionAccount,
} from '../../contracts/account.js';
import type { PolicyEngine } from '../../contracts/policy.js';
import { DEFAULT_SESSIONS } from '../../contracts/session.js';
import type { Tool } from '../../contracts/tool.js';
import { Logger } from '../../findings/logger.js';
import { namesOutsiders } from '../../schema/field-origins.js';
import { isUnpinned } from '../sources/vouched-tools.js';
import { CountedSpending } from '../usage/spending.js';

/**
 * The account of one session, or of a call of one that was resumed: what was read, spent and
 * refused so far. Other sessions of the same principal add to the same account in the store, in
 * this process or another one, so it is read before a call that it could decide on, and told of
 * what a call reads before the call is made.
 */
export class CallAccount {
  readonly spending: CountedSpending;
  private known = NOTHING;
  private isKnown = false;
  private touchedAt = 0;
  private refusals = 0;
  private offered: Toolset | undefined;
  private toldTokens = 0;
  private toldUsd = 0;

  constructor(
    engines: readonly PolicyEngine[],
    /** Absent for a session without a scope, whose client may have read anything. */
    private readonly place?: AccountPlace,
    /** The confidentiality of the client's own words. */
    private readonly own: MessageLabels['reads'] = 'private',
    /** The writer of the arguments, where the application says who it is. */
    private readonly argsOrigin: ValueOrigin = 'outside',
    /**
     * Set for a client that may have read anything elsewhere: its account adds taint, and takes
     * none away.
     */
    private readonly readsElsewhere = false,
  ) {
    this.spending = new CountedSpending(
      engines,
      place && ((counts) => this.add({ counts }).then((account) => account.counts)),
    );
  }

  /** The name under which a waiting call finds the account again. */
  get scope(): string | undefined {
    return this.place?.key.scope;
  }

  /**
   * The labels of the arguments: those of all that the client has read, unless a person or the
   * application wrote them. What it has read elsewhere is in no account.
   */
  get labels(): MessageLabels {
    if (this.argsOrigin !== 'outside') return WRITTEN_BY[this.argsOrigin];
    if (!this.place || this.readsElsewhere) return UNKNOWN_READER;
    const { isTainted, hasReadPrivate } = this.known;
    return {
      returns: isTainted ? 'untrusted' : 'trusted',
      reads: hasReadPrivate ? 'private' : this.own,
    };
  }

  /**
   * Reads what other sessions have added, and tells which tools the client is shown, before a call.
   * Where neither could change a decision any more the account is only kept alive.
   *
   * @throws {StorageUnavailableError} Where the account does not answer: then the call is not made.
   */
  async refresh(toolset: Toolset): Promise<void> {
    if (!this.place) return;
    const { isTainted, hasReadPrivate } = this.known;
    const isSettled = this.isKnown && isTainted && hasReadPrivate && !this.spending.isCounting;
    if (!isSettled) return this.read(toolset);
    if (performance.now() - this.touchedAt >= this.place.keptMs / TOUCHES) this.touch();
  }

  private async read(toolset: Toolset): Promise<void> {
    await this.add({});
    if (toolset === this.offered) return;
    await this.offer(toolset);
    this.offered = toolset;
  }

  /**
   * Returns whether the account does not know yet what a client reads with these tools: a
   * description that is not pinned is a stranger's text.
   */
  lacksOffer(toolset: Pick<Toolset, 'shown'>): boolean {
    return this.lacks(STRANGERS_TEXT) && toolset.shown.some(isUnpinned);
  }

  /**
   * Tells the account that a client is about to be shown these tools.
   *
   * @throws {StorageUnavailableError} Where the account cannot be told: then they are not shown.
   */
  async offer(toolset: Pick<Toolset, 'shown'>): Promise<void> {
    if (this.lacksOffer(toolset)) await this.note(STRANGERS_TEXT);
  }

  /**
   * Tells the account what a call may read, before it is made: a result that was handed out could
   * not be taken back where telling fails.
   *
   * @throws {StorageUnavailableError} Where the account cannot be told: then the call is not made.
   */
  async note({ returns, reads }: MessageLabels): Promise<void> {
    await this.add({
      ...(returns === 'untrusted' && { isTainted: true }),
      ...(reads === 'private' && { hasReadPrivate: true }),
    });
  }

  /** Returns whether the account does not know of these labels yet. */
  lacks({ returns, reads }: MessageLabels): boolean {
    if (!this.place) return false;
    return (
      (returns === 'untrusted' && !this.known.isTainted) ||
      (reads === 'private' && !this.known.hasReadPrivate)
    );
  }

  /** Counts the end of a call. Resolves to the number of refused calls in a row. */
  async ended(isRefused: boolean): Promise<number> {
    const counts = this.newCounts();
    this.refusals = isRefused ? this.refusals + 1 : 0;
    return this.toldEnd({ isRefused, ...(counts && { counts }) });
  }

  /** Returns whether the end of a call changes the account. */
  isCountedEnd(isRefused: boolean): boolean {
    const { tokens, usd } = this.spending;
    return isRefused || this.refusals > 0 || tokens !== this.toldTokens || usd !== this.toldUsd;
  }

  /**
   * A call that has ended stays as it is, so what cannot be told is logged; it is told with the
   * next.
   */
  private async toldEnd(addition: AccountAddition): Promise<number> {
    if (!this.place) return this.refusals;
    try {
      this.refusals = (await this.add(addition)).refusals;
    } catch (error) {
      logger.warn('The account of a session could not be told how a call has ended.', error);
    }
    return this.refusals;
  }

  /** The tokens and the cost of sub-runs since they were last told. */
  private newCounts(): AccountAddition['counts'] {
    const { tokens, usd } = this.spending;
    if (tokens === this.toldTokens && usd === this.toldUsd) return undefined;
    const counts = {
      tokens: tokens - this.toldTokens,
      usd: usd - this.toldUsd,
      ...(this.spending.hasUnknownCost && { unknownCosts: 1 }),
    };
    this.toldTokens = tokens;
    this.toldUsd = usd;
    return counts;
  }

  private async add(addition: AccountAddition): Promise<SessionAccount> {
    if (!this.place) return this.known;
    const { store, key, keptMs } = this.place;
    const account = await store.add(key, addition, keptMs);
    this.touchedAt = performance.now();
    this.learn(account);
    return account;
  }

  /** Answers may come in another order than they were made, so what is known only ever grows. */
  private learn({ isTainted, hasReadPrivate, refusals, counts }: SessionAccount): void {
    const { known, spending } = this;
    if (!this.isKnown) this.refusals = refusals;
    this.isKnown = true;
    this.known = {
      isTainted: known.isTainted || isTainted,
      hasReadPrivate: known.hasReadPrivate || hasReadPrivate,
      refusals,
      counts,
    };
    const { tokens = 0, usd = 0, unknownCosts = 0 } = counts;
    this.takeOver(tokens, usd);
    spending.hasUnknownCost ||= unknownCosts > 0;
    spending.learn(counts);
  }

  private takeOver(tokens: number, usd: number): void {
    const { spending } = this;
    if (tokens > this.toldTokens) {
      spending.tokens += tokens - this.toldTokens;
      this.toldTokens = tokens;
    }
    if (usd <= this.toldUsd) return;
    spending.usd += usd - this.toldUsd;
    this.toldUsd = usd;
  }

  private touch(): void {
    this.touchedAt = performance.now();
    outsideOfRuns(() => this.add({})).catch((error: unknown) =>
      logger.warn('The account of a session could not be kept alive.', error),
    );
  }
}

/** The number of times within this time that an account is told that it is still used. */
const TOUCHES = 20;

const UNKNOWN_READER: MessageLabels = { returns: 'untrusted', reads: 'private' };

const STRANGERS_TEXT: MessageLabels = { returns: 'untrusted', reads: 'public' };

/**
 * The labels of arguments that no model has written. What a person writes is private, like what
 * they say.
 */
const WRITTEN_BY: Readonly<Record<Exclude<ValueOrigin, 'outside'>, MessageLabels>> = {
  actor: { returns: 'trusted', reads: 'private' },
  application: { returns: 'trusted', reads: 'public' },
};

const logger = new Logger('CallAccount');

const NOTHING: SessionAccount = {
  isTainted: false,
  hasReadPrivate: false,
  refusals: 0,
  counts: {},
};

/** The store of an account, and the time for which it is kept after its last use. */
export interface AccountPlace {
  readonly store: AccountStore;
  readonly key: AccountKey;
  readonly keptMs: number;
}

/** The labels of all that a call of a tool may read. A sub-run may read anything. */
export function labelsReadBy({
  origin,
  subRun,
  spec: { labels, outputSchema },
}: Tool): MessageLabels {
  if (subRun) return UNKNOWN_READER;
  const mayTrust = origin.trusted && labels.from === undefined && !namesOutsiders(outputSchema);
  return { returns: mayTrust ? labels.returns : 'untrusted', reads: labels.reads };
}

/**
 * Returns how long the account of sessions is kept after its last use: a little longer than a
 * session, so that none outlives its own.
 */
export function accountMs(idleMs = DEFAULT_SESSIONS.idleMs): number {
  return Math.ceil(idleMs * (1 + 2 / TOUCHES));
}
