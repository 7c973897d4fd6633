import type { DirectiveStore } from '../contracts/directive.js';
import { boundStore } from './bounded-store.js';
import { asPart, outsideOfRuns, tellStore } from './store-calls.js';

/** Bounds the store of directives, which are performed outside of the run that asked for them. */
export const boundDirectives = (store: DirectiveStore): DirectiveStore =>
  boundStore(store, {
    find: 'ask',
    list: 'ask',
    /** The same owner gets its lease again. One that comes after the caller has left expires. */
    acquire: 'ask',
    renew: 'ask',

    /**
     * The one that an attempt without an answer kept has the id. `first` is undone with an attempt
     * that kept nothing, and its error is its own.
     */
    add(intent, first) {
      const thrown: unknown[] = [];
      const given = async (): Promise<void> =>
        first?.().catch((error: unknown) => rethrow(error, thrown));
      return tellStore(
        'A directive',
        async (attempt) => {
          const known = attempt > 1 ? await store.find(intent) : undefined;
          return known
            ? { record: known, isNew: false }
            : store.add(intent, first && (() => asPart(given)));
        },
        (error) => thrown.includes(error),
      );
    },

    /** Only the holder of a directive can change it from one epoch and state. */
    change: (from, change) =>
      tellStore('The state of a directive', async (attempt) => {
        const changed = await store.change(from, change);
        if (changed || attempt === 1) return changed;
        const known = await store.find(from);
        return known?.status === change.status && known.epoch === from.epoch ? known : undefined;
      }),

    work: (perform, concurrency) =>
      store.work((reference) => outsideOfRuns(() => perform(reference)), concurrency),
  });

function rethrow(error: unknown, thrown: unknown[]): never {
  thrown.push(error);
  throw error;
}
