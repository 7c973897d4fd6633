import type { Migration } from './migration.js';

/**
 * Directives. Keys, subjects and actors are hashed for looking them up, and told in `intent`, which is JSON. A row that is due some time has a job in the queue that
 * says so; times are whole milliseconds, so that a job and its row never differ.
 */
export const DIRECTIVES: Migration = {
  version: 5,
  name: 'directives',
  statements: [
    `create table toolloop.directives (
      tenant text not null,
      directive_id text not null,
      position bigint generated always as identity,
      key_hash text not null,
      subject_hash text not null,
      actor_hash text not null,
      intent text not null,
      task text not null default 'perform' check (task in ('perform', 'compensate')),
      status text not null default 'pending' check (
        status in ('pending', 'performing', 'succeeded', 'unknown_outcome', 'dead', 'cancelled', 'compensated')
      ),
      epoch int not null default 0,
      attempts int not null default 0,
      due_at timestamptz(3) check ((due_at is not null) = (status in ('pending', 'performing'))),
      result text,
      failure text,
      updated_at timestamptz not null,
      primary key (tenant, directive_id),
      unique (tenant, key_hash)
    )`,
    `create index directives_of_tenant on toolloop.directives (tenant, position)`,
    `create index directives_of_status on toolloop.directives (tenant, status, position)`,
    `create index directives_of_subject on toolloop.directives (tenant, subject_hash, position)`,
    `create index directives_of_actor on toolloop.directives (tenant, actor_hash, position)`,
    `create index directives_performing on toolloop.directives (updated_at) where status = 'performing'`,
    `create index directives_over on toolloop.directives (updated_at) where status in ('succeeded', 'dead', 'cancelled', 'compensated')`,
  ],
};
