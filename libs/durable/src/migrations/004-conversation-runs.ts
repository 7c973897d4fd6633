import type { Migration } from './migration.js';

/** Which run added a part: one that ends twice, since its process died, adds it once. */
export const CONVERSATION_RUNS: Migration = {
  version: 4,
  name: 'conversation runs',
  statements: [
    'alter table toolloop.conversation_parts add column run_id text',
    'create unique index conversation_parts_of_run on toolloop.conversation_parts (tenant, key_hash, run_id)',
  ],
};
