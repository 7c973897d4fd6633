import type { FinishReason, JsonObject, LoopEvent, RunEntry } from '@toolloop/core';
import type { RunRecord, RunStatus } from './run-store.js';

/** A row of `toolloop.runs`. */
export interface RunRow {
  readonly run_id: string;
  readonly tenant: string;
  readonly actor_id: string;
  readonly loop: string | null;
  readonly request: string;
  readonly fork_of: string | null;
  readonly status: RunStatus;
  readonly finish_reason: FinishReason | null;
  readonly epoch: number;
  readonly cancelled: string | null;
  readonly last_sequence: number;
  readonly created_at: Date;
  readonly updated_at: Date;
}

export function fromRunRow(row: RunRow): RunRecord {
  return {
    runId: row.run_id,
    tenant: row.tenant,
    actorId: row.actor_id,
    ...(row.loop !== null && { loop: row.loop }),
    request: JSON.parse(row.request) as JsonObject,
    ...(row.fork_of !== null && { forkOf: JSON.parse(row.fork_of) as NonNullable<RunRecord['forkOf']> }),
    status: row.status,
    ...(row.finish_reason !== null && { finishReason: row.finish_reason }),
    ...(row.cancelled !== null && { cancelled: row.cancelled }),
    lastSequence: row.last_sequence,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  };
}

export function fromEntryText(text: string): RunEntry {
  return JSON.parse(text) as RunEntry;
}

export function fromEventsText(text: string): readonly LoopEvent[] {
  return (JSON.parse(text) as LoopEvent[]).map(withDates);
}

/** The dates of a record are text in JSON. */
export function withDates(event: LoopEvent): LoopEvent {
  if (event.type === 'sub-run') return { ...event, event: withDates(event.event) };
  if (event.type !== 'tool-result') return event;
  const { startedAt, endedAt } = event.record;
  return { ...event, record: { ...event.record, startedAt: new Date(startedAt), endedAt: new Date(endedAt) } };
}
