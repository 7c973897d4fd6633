import type { Migration } from './migration.js';

/**
 * Contents are `json`, not `jsonb`: it keeps the text as it was written, NUL and lone surrogates as their escapes, which `jsonb` refuses. Keys that
 * clients choose are hashed, so that their length and characters do not matter.
 */
export const STORES: Migration = {
  version: 1,
  name: 'stores',
  statements: [
    `create table toolloop.approvals (
      approval_id text primary key,
      position bigint generated always as identity,
      tenant text not null,
      run_id text not null,
      record json not null,
      decision text,
      answer json,
      is_used boolean not null default false,
      created_at timestamptz not null default now()
    )`,
    `create unique index approvals_of_tenant on toolloop.approvals (tenant, position)`,
    `create index approvals_pending on toolloop.approvals (tenant, position) where decision is null`,
    `create index approvals_of_run on toolloop.approvals (tenant, run_id, position)`,
    `create index approvals_created on toolloop.approvals (created_at)`,
    `create table toolloop.calls (
      tenant text not null,
      key_hash text not null,
      idempotency_key text not null,
      run_id text not null,
      declared_id text not null,
      call_hash text not null,
      outcome json,
      started_at timestamptz not null default now(),
      finished_at timestamptz,
      primary key (tenant, key_hash)
    )`,
    `create index calls_finished on toolloop.calls (finished_at)`,
    `create table toolloop.audit (
      tenant text not null,
      sequence bigint not null check (sequence > 0),
      hash text not null,
      entry json not null,
      primary key (tenant, sequence)
    )`,
    `create function toolloop.refuse_change() returns trigger language plpgsql as $$
      begin
        raise exception 'The audit is append-only: % is refused.', tg_op;
      end
    $$`,
    `create trigger audit_append_only before update or delete on toolloop.audit for each row execute function toolloop.refuse_change()`,
    `create trigger audit_not_truncated before truncate on toolloop.audit for each statement execute function toolloop.refuse_change()`,
    `create table toolloop.conversation_parts (
      tenant text not null,
      key_hash text not null,
      position bigint generated always as identity,
      actor_hash text not null,
      conversation_id text not null,
      message_count int not null,
      messages json not null,
      created_at timestamptz not null default now(),
      primary key (tenant, key_hash, position)
    )`,
    `create index conversation_parts_created on toolloop.conversation_parts (created_at)`,
    `create index conversation_parts_of_actor on toolloop.conversation_parts (tenant, actor_hash, position)`,
    `create table toolloop.quotas (
      tenant text not null,
      quantity text not null,
      window_ms bigint not null,
      "window" bigint not null,
      used double precision not null,
      primary key (tenant, quantity, window_ms, "window")
    )`,
    `create table toolloop.suspended_runs (
      run_id text primary key,
      tenant text not null,
      run json not null,
      created_at timestamptz not null default now()
    )`,
    `create index suspended_runs_created on toolloop.suspended_runs (created_at)`,
  ],
};
