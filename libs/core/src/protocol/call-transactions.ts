import type { JournalKey } from './call-journal.js';

/** The port behind `context.transaction`: effects in the same database as the journal, exactly once. */
export abstract class CallTransactions {
  /**
   * Runs `work` in one transaction, together with a mark that this call has been done, and resolves to what it returned, as the JSON that a model would read. Where the mark is there
   * already it resolves to what was kept, and `work` is not run. Rejects, with nothing done, where `work` rejects and for a call that the journal has not begun.
   */
  abstract once<Result>(call: JournalKey, work: () => Promise<Result>): Promise<Result>;
}
