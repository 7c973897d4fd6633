import type { FinishReason, JsonObject, LoopEvent, LoopResult } from '@toolloop/core';
import { type RunEntry, withDates } from '@toolloop/core/internal';
import type { OwedEntry, RunRecord, RunStatus } from '@toolloop/core/stores';
import { fromLeaseRow } from '../database/lease-sql.js';

/** A row of `toolloop.runs`. */
export interface RunRow {
  readonly run_id: string;
  readonly tenant: string;
  readonly actor_id: string;
  readonly loop: string | null;
  readonly request: string | null;
  readonly fork_of: string | null;
  readonly status: RunStatus;
  readonly finish_reason: FinishReason | null;
  readonly waiting_for: NonNullable<LoopResult['waitingFor']> | null;
  readonly owner: string | null;
  readonly epoch: number;
  readonly expires_at: Date | null;
  readonly cancelled: string | null;
  readonly put_offs: number;
  readonly last_sequence: number;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/**
 * Reads the rows of `ENTRIES`, each of an entry or a list. A key that is written again stands where
 * it was written last.
 */
export function fromEntryTexts(texts: readonly string[]): readonly RunEntry[] {
  const entries = new Map<string, RunEntry>();
  for (const entry of texts.flatMap((text) => JSON.parse(text) as RunEntry | RunEntry[])) {
    entries.delete(entry.key);
    entries.set(entry.key, entry);
  }
  return [...entries.values()];
}

/** Reads a run. */
export function fromRunRow(row: RunRow): RunRecord {
  const { owner, epoch, expires_at } = row;
  return {
    runId: row.run_id,
    tenant: row.tenant,
    actorId: row.actor_id,
    ...(row.loop !== null && { loop: row.loop }),
    ...(row.request !== null && { request: JSON.parse(row.request) as JsonObject }),
    ...(row.fork_of !== null && {
      forkOf: JSON.parse(row.fork_of) as NonNullable<RunRecord['forkOf']>,
    }),
    ...stateIn(row),
    epoch,
    ...(owner !== null && expires_at && { lease: fromLeaseRow({ owner, epoch, expires_at }) }),
    lastSequence: row.last_sequence,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  };
}

function stateIn(
  row: RunRow,
): Pick<RunRecord, 'status' | 'finishReason' | 'waitingFor' | 'cancelled' | 'putOffs'> {
  return {
    status: row.status,
    ...(row.finish_reason !== null && { finishReason: row.finish_reason }),
    ...(row.waiting_for !== null && row.status === 'waiting' && { waitingFor: row.waiting_for }),
    ...(row.cancelled !== null && { cancelled: row.cancelled }),
    ...(row.put_offs > 0 && { putOffs: row.put_offs }),
  };
}

/** Reads the events of one write. */
export function fromEventsText(text: string): readonly LoopEvent[] {
  return (JSON.parse(text) as LoopEvent[]).map(withDates);
}

/** Reads an entry that the audit has not taken. */
export function fromOwedText(text: string): OwedEntry {
  return JSON.parse(text) as OwedEntry;
}
