import { CallTransactions, type JournalKey } from '../contracts/call-journal.js';
import { asPart, askStore } from './store-calls.js';

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
