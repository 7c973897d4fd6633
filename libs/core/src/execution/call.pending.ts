import type { StorageUnavailableError } from '../protocol/errors.js';
import type { BegunSubRun } from './sub-runs.js';

/** Thrown to say that a call was not made yet: a signal, no failure. It passes every filter and every retry, and only the runner takes it. */
export class CallPending extends Error {
  override readonly name = 'CallPending';

  /** Without an approval's id the call waits for an earlier one of its step. */
  constructor(
    readonly approvalId?: string,
    /** Set where the call is a run that has begun, and waits for one of its own. */
    readonly begun?: BegunSubRun,
    /** Set where it waits for a store that does not answer for now, not for a person. */
    readonly unavailable?: StorageUnavailableError,
  ) {
    super('The call waits for a decision.');
  }
}
