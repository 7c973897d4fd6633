import { CallJournal, CallTransactions } from '../contracts/call-journal.js';
import type {
  JournalCall,
  JournalClaim,
  JournalEntry,
  JournalHold,
  JournalKey,
  JournalOutcome,
  JournalStart,
} from '../contracts/call-journal.js';
import type { Lease, LeaseRequest } from '../contracts/lease.js';
import { asPart, askStore, tellStore } from './store-calls.js';

export class BoundedJournal extends CallJournal {
  constructor(private readonly store: CallJournal) {
    super();
  }

  /** The same owner gets its lease again. One that comes after the run has ended is given back. */
  override acquire(start: JournalStart): Promise<JournalClaim> {
    const late = (claim: JournalClaim): unknown =>
      claim.status === 'acquired' ? this.release({ ...start, ...claim.lease }) : undefined;
    return askStore(() => this.store.acquire(start), { late });
  }

  override find(call: JournalCall): Promise<JournalEntry | undefined> {
    return askStore(() => this.store.find(call));
  }

  /** The same owner gets its lease again. */
  override steal(key: JournalKey, request: LeaseRequest): Promise<Lease | undefined> {
    return askStore(() => this.store.steal(key, request));
  }

  /** Does nothing once the call has ended. */
  override finish(hold: JournalHold, outcome: JournalOutcome): Promise<void> {
    return tellStore('The outcome of a call', () => this.store.finish(hold, outcome));
  }

  /** Does nothing for who does not hold the lease any more. */
  override release(hold: JournalHold): Promise<void> {
    return tellStore('The release of a key', () => this.store.release(hold));
  }
}

/**
 * The work of a tool in a transaction. An error before it is the store's; one since it began may be
 * its own, such as a constraint that is checked at the commit.
 */
class OwnWork<Result> {
  private isUnderWay = false;

  constructor(private readonly work: () => Promise<Result>) {}

  readonly hasBegun = (): boolean => this.isUnderWay;

  /** Returns the work for another attempt. */
  begin(): () => Promise<Result> {
    this.isUnderWay = false;
    return () => {
      this.isUnderWay = true;
      return asPart(this.work);
    };
  }
}

export class BoundedTransactions extends CallTransactions {
  constructor(private readonly transactions: CallTransactions) {
    super();
  }

  /**
   * A transaction without an answer was rolled back, or its mark is there. The tool's own limit
   * holds for it.
   */
  override once<Result>(
    call: JournalKey,
    work: () => Promise<Result>,
    over: AbortSignal,
  ): Promise<Result> {
    const own = new OwnWork(work);
    return askStore(() => this.transactions.once(call, own.begin(), over), {
      longestMs: Infinity,
      isAnswer: own.hasBegun,
    });
  }

  /** Nothing of it is kept, but the method of a tool is not called twice. */
  override rehearse<Result>(work: () => Promise<Result>, over: AbortSignal): Promise<Result> {
    const own = new OwnWork(work);
    const terms = { longestMs: Infinity, isRepeatable: false, isAnswer: own.hasBegun };
    return askStore(() => this.transactions.rehearse(own.begin(), over), terms);
  }

  /** It is repeated with the transaction that it is part of, or not at all. */
  override unmarked<Result>(work: () => Promise<Result>): Promise<Result> {
    return askStore(() => this.transactions.unmarked(work), {
      longestMs: Infinity,
      isRepeatable: false,
      isAnswer: () => true,
    });
  }
}
