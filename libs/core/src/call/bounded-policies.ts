import { isDeepStrictEqual } from 'node:util';
import type { PolicyStore } from '../contracts/policy-store.js';
import { boundStore } from './bounded-store.js';
import { askStore, outsideOfRuns } from './store-calls.js';

/** Bounds the store of policies, which is no part of the run in which it happens to be read. */
export const boundPolicies = (store: PolicyStore): PolicyStore =>
  boundStore(store, {
    find: 'ask',
    list: 'ask',
    /** The same stop twice is one. */
    stop: 'ask',
    read: 'askOutside',

    /**
     * A version that is there, and equals this one with its author and its time, was added by an
     * attempt without an answer.
     */
    add: (version) =>
      askStore(async (attempt) => {
        const isAdded = await store.add(version);
        if (isAdded || attempt === 1) return isAdded;
        return isDeepStrictEqual(await store.find(version, version.number), version);
      }),

    /** A stop that is gone was released by an attempt without an answer. */
    release: (stopId) => askStore(async (attempt) => (await store.release(stopId)) || attempt > 1),

    watch: (told) =>
      outsideOfRuns(() => askStore(() => store.watch(told), { late: (end) => end() })),
  });
