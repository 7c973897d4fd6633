import type { ConversationStore } from '../contracts/conversation.js';
import { boundStore } from './bounded-store.js';
import { askStore, tellStore } from './store-calls.js';

export const boundConversations = (store: ConversationStore): ConversationStore =>
  boundStore(store, {
    load: 'ask',
    list: 'ask',
    read: 'ask',
    turn: 'ask',
    cutBy: 'ask',
    /** The same words are left once. */
    leave: 'ask',
    left: 'askOutside',
    /** The same run takes them again. A run that ends takes its words back. */
    take: 'askOutside',
    /** The same turns are cut once. */
    cut: 'ask',

    /**
     * The messages that the same run appended before are replaced. Without a run's id one append
     * cannot be told from another.
     */
    append: (key, messages, runId) =>
      runId === undefined
        ? askStore(() => store.append(key, messages), { isRepeatable: false })
        : tellStore('The conversation', () => store.append(key, messages, runId)),

    /** The same owner gets its lease again; one that comes after its run has ended is returned. */
    claim: (key, request) =>
      askStore(() => store.claim(key, request), {
        late: (isOurs) => isOurs && store.claim(key, { ...request, forMs: 0 }),
      }),

    /** A conversation that an attempt without an answer deleted was there as well. */
    delete: (key) => askStore(async (attempt) => (await store.delete(key)) || attempt > 1),
  });
