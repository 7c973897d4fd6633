import type { Migration } from './migration.js';

/** Whose a call is that has not ended, and until when it may take. Of calls that were begun before, nobody is left who could say what became of them. */
export const CALL_CLAIMS: Migration = {
  version: 7,
  name: 'call claims',
  statements: [
    `alter table toolloop.calls add column claim_id text not null default ''`,
    `alter table toolloop.calls add column ends_at timestamptz`,
  ],
};
