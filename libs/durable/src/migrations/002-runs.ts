import type { Migration } from './migration.js';

/** Durable runs. `text` where the others have `json`: nobody asks the database what is in it, and it is written by the list. */
export const RUNS: Migration = {
  version: 2,
  name: 'runs',
  statements: [
    `create table toolloop.runs (
      run_id text primary key,
      position bigint generated always as identity,
      tenant text not null,
      actor_id text not null,
      loop text,
      request text not null,
      fork_of text,
      status text not null check (status in ('queued', 'running', 'waiting', 'ended')),
      finish_reason text,
      epoch int not null default 1,
      is_woken boolean not null default false,
      cancelled text,
      last_sequence int not null default 0,
      told_at timestamptz not null default now(),
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    )`,
    `create index runs_of_actor on toolloop.runs (tenant, actor_id, position)`,
    `create index runs_running on toolloop.runs (told_at) where status = 'running'`,
    `create index runs_ended on toolloop.runs (updated_at) where status = 'ended'`,
    `create table toolloop.run_entries (
      run_id text not null references toolloop.runs on delete cascade,
      key_hash text not null,
      position bigint not null,
      entry text not null,
      primary key (run_id, key_hash)
    )`,
    `create sequence toolloop.run_entry_positions`,
    `create table toolloop.run_events (
      run_id text not null references toolloop.runs on delete cascade,
      sequence int not null,
      event text not null,
      primary key (run_id, sequence)
    )`,
  ],
};
