import type { Migration } from './migration.js';

/** What a call did in a transaction of this database, beside the call itself: whatever deletes the one deletes the other. */
export const EFFECTS: Migration = {
  version: 3,
  name: 'effects',
  statements: ['alter table toolloop.calls add column effect json'],
};
