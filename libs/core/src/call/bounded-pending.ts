import { isDeepStrictEqual } from 'node:util';
import { isUsable, type Pending, type PendingStore } from '../contracts/pending.js';
import { withdrawal } from '../plugins/inbox/withdrawal.js';
import { boundStore } from './bounded-store.js';
import { askStore, tellStore } from './store-calls.js';

/** @param tell is given each record that was answered, once that is stored */
export function boundPending(store: PendingStore, tell: (answered: Pending) => void): PendingStore {
  /**
   * After an attempt without a reply, an answer that is there and equals this one, its time
   * included, counts as stored by that attempt.
   */
  const answer: PendingStore['answer'] = async (id, given) => {
    const stored = await tellStore('The answer of a person', async (attempt) => {
      const answered = await store.answer(id, given);
      if (answered || attempt === 1) return answered;
      const known = await store.find(id);
      return known && isDeepStrictEqual(known.answer, given) ? known : undefined;
    });
    if (stored) tell(stored);
    return stored;
  };
  return boundStore(store, {
    answer,
    find: 'ask',
    list: 'ask',
    /** The same owner gets its lease again. */
    claim: 'ask',
    /** The same owner gets nothing again: a lease without an answer is leased anew later. */
    due: 'askOutside',
    /** Does nothing for an owner that lost its lease. */
    reschedule: 'askOutside',

    /** The same record twice is kept once; one that is kept after its run ended is withdrawn. */
    add: (record) =>
      askStore(() => store.add(record), { late: () => answer(record.id, withdrawal()) }),

    /**
     * An answer is bound to one call, and the key of that call in the journal keeps it from being
     * made twice: one that was used meanwhile was used by this call.
     */
    use: (id) =>
      askStore(async (attempt) => {
        const isTaken = await store.use(id);
        if (isTaken || attempt === 1) return isTaken;
        const known = await store.find(id);
        return known?.usedAt !== undefined && known.answer !== undefined && isUsable(known.answer);
      }),

    /** A person may take as long as the caller's signal lets them. */
    answered: (id, signal) => askStore(() => store.answered(id, signal), { longestMs: Infinity }),
  });
}
