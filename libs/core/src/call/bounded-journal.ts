import type { CallJournal } from '../contracts/call-journal.js';
import { boundStore } from './bounded-store.js';
import { askStore, tellStore } from './store-calls.js';

export function boundJournal(store: CallJournal): CallJournal {
  /** Does nothing for an owner that lost its lease. */
  const release: CallJournal['release'] = (hold) =>
    tellStore('The release of a key', () => store.release(hold));
  return boundStore(store, {
    release,
    find: 'ask',
    /** The same owner gets its lease again. */
    steal: 'ask',

    /** The same owner gets its lease again; one that comes after the run has ended is returned. */
    acquire: (start) =>
      askStore(() => store.acquire(start), {
        late: (claim) =>
          claim.status === 'acquired' ? release({ ...start, ...claim.lease }) : undefined,
      }),

    /** Does nothing once the call has ended. */
    finish: (hold, outcome) =>
      tellStore('The outcome of a call', () => store.finish(hold, outcome)),
  });
}
