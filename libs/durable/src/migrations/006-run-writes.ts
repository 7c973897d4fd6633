import type { Migration } from './migration.js';

/**
 * What makes the write of a run cheap: its events are one row instead of one each, and no index holds a column that a write changes, so that PostgreSQL writes
 * none of the indexes of the run's row (a heap-only update).
 */
export const RUN_WRITES: Migration = {
  version: 6,
  name: 'run writes',
  statements: [
    'alter table toolloop.run_events rename column event to events',
    'alter table toolloop.run_events add column event_count int not null default 1',
    `update toolloop.run_events set events = '[' || events || ']'`,
    'alter table toolloop.runs add column ended_at timestamptz',
    `update toolloop.runs set ended_at = updated_at where status = 'ended'`,
    'drop index toolloop.runs_running',
    `create index runs_running on toolloop.runs (run_id) where status = 'running'`,
    'drop index toolloop.runs_ended',
    'create index runs_ended on toolloop.runs (ended_at) where ended_at is not null',
  ],
};
