import type { UsageStore } from '../contracts/usage.js';
import { boundStore } from './bounded-store.js';
import { tellStore } from './store-calls.js';

export const boundUsage = (store: UsageStore): UsageStore =>
  boundStore(store, {
    /** A batch counts once, so it may be sent again. */
    add: (batch) => tellStore('The usage of runs', () => store.add(batch)),
    totals: 'ask',
    report: 'ask',
  });
