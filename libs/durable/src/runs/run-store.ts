import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { type FinishReason, InvalidRequestError, type JsonObject, type LoopEvent, type LoopRequest } from '@toolloop/core';
import type { RunEntry } from '@toolloop/core/internal';
import { keyHash } from '../stores/storable.js';

/** `queued`: somebody is to go on with it. `running`: somebody does. `waiting`: for decisions. `ended`: for good. */
export type RunStatus = 'queued' | 'running' | 'waiting' | 'ended';

/** A durable run, as it is kept. */
export interface RunRecord {
  readonly runId: string;
  readonly tenant: string;
  /** For whom it acts. */
  readonly actorId: string;
  /** The name of its loop; absent for `ToolLoopService` itself. */
  readonly loop?: string;
  /** What it was asked, as JSON. */
  readonly request: JsonObject;
  readonly status: RunStatus;
  /** Of a run that has ended, or waits. */
  readonly finishReason?: FinishReason;
  /** Of its last event; 0 for none. */
  readonly lastSequence: number;
  /** Why somebody wants it to end. */
  readonly cancelled?: string;
  /** The run it goes off from, and after which of its steps. */
  readonly forkOf?: { readonly runId: string; readonly step: number };
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  /** ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** A run to keep; `entries` where it begins with what another one did. */
export type NewRun = Pick<RunRecord, 'runId' | 'tenant' | 'actorId' | 'loop' | 'request' | 'forkOf'> & {
  readonly entries?: readonly RunEntry[];
};

/** One process's right to go on with a run. Whoever takes the run later has a higher epoch; what is written under a lower one is refused. */
export interface RunHold {
  readonly runId: string;
  readonly epoch: number;
}

/** A run that was taken, to go on with it. */
export interface HeldRun {
  readonly hold: RunHold;
  readonly record: RunRecord;
}

/** What a run wrote down since the last time, and how it ended where it did. */
export interface RunWrite {
  readonly entries: readonly RunEntry[];
  readonly events: readonly LoopEvent[];
  readonly ending?: { readonly status: 'waiting' | 'ended'; readonly finishReason: FinishReason };
}

/** Which runs to list: one actor's. */
export interface RunQuery {
  readonly tenant: string;
  readonly actorId: string;
  readonly status?: RunStatus;
  /** @default 100 */
  readonly limit?: number;
  /** The id of the last one of the page before. */
  readonly after?: string;
}

/** Which of a run's events to read. */
export interface EventPage {
  /** The sequence of the last one that is known. */
  readonly after: number;
  readonly limit: number;
}

/** A run is not this process's any more: somebody else took it, or it has ended. */
export class RunLostError extends Error {
  override readonly name = 'RunLostError';

  constructor({ runId, epoch }: RunHold) {
    super(`The run ${runId} is not this process's any more (epoch ${epoch}).`);
  }
}

/** The port that keeps durable runs, and tells whoever has room which of them to go on with. Every method is one atomic operation. */
export abstract class RunStore {
  /** Makes ready what it needs; called once, when the application starts and outside of any transaction. */
  abstract open(): Promise<void>;
  /** `running` for the process that adds it, `queued` for whoever has room. Rejects for an id that is there. */
  abstract add(run: NewRun, status: 'running' | 'queued'): Promise<RunHold>;
  /** Takes a run that is queued or waits, to go on with it or to look at it again; undefined where it is neither. */
  abstract claim(runId: string): Promise<HeldRun | undefined>;
  /**
   * Keeps all of it, or rejects: with `RunLostError` where the hold does not hold. The same write twice is kept once. A run that is to wait, and was woken
   * or cancelled meanwhile, is queued instead.
   */
  abstract write(hold: RunHold, write: RunWrite): Promise<void>;
  /** Tells that these runs go on; answers with those that are still held. */
  abstract beat(holds: readonly RunHold[]): Promise<readonly Pick<RunRecord, 'runId' | 'cancelled'>[]>;
  /** Gives a run back, for somebody else to go on with. Nothing, where the hold does not hold. */
  abstract release(hold: RunHold): Promise<void>;
  /** Queues the running ones of which nobody has told for so long; the number of them. */
  abstract requeueSilent(silentMs: number): Promise<number>;
  /** Queues a run that waits. One that is about to wait will not. */
  abstract wake(runId: string): Promise<void>;
  /** Has a run handed out at that time or soon after, for whoever has room to look at it again. Nothing, if there is no such run. */
  abstract wakeAt(runId: string, at: Date): Promise<void>;
  /** Says that a run is to end; one that nobody goes on with is queued, so that somebody ends it. Nothing, where it has ended. */
  abstract cancel(runId: string, reason: string): Promise<void>;
  abstract find(runId: string): Promise<RunRecord | undefined>;
  /** The newest first. */
  abstract list(query: RunQuery): Promise<readonly RunRecord[]>;
  /** In the order in which they were written. */
  abstract entries(runId: string): Promise<readonly RunEntry[]>;
  abstract events(runId: string, page: EventPage): Promise<readonly LoopEvent[]>;
  /** Calls `changed` after something was written for the run, perhaps more often. Resolves to what ends it. */
  abstract watch(runId: string, changed: () => void): Promise<() => Promise<void>>;
  /** Hands queued runs to `advance`, at most so many at once, and again where it rejects. Resolves to what ends it, and then waits for nobody. */
  abstract work(advance: (runId: string) => Promise<void>, most: number): Promise<() => Promise<void>>;
}

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

/** Of a question: what the application adds to it, such as a policy, may have changed by the time it is repeated. */
const ASKED = ['prompt', 'messages', 'conversationId'] as const;

/** The id of a new run. The same request id of the same actor gives the same one at the same place: whoever asks again asks for no second run. */
export function runIdFor(requestId: string | undefined, ...place: readonly (string | null)[]): string {
  return requestId === undefined ? randomUUID() : `run_${keyHash(...place, requestId).slice(0, 40)}`;
}

/** Adds a run for whoever has room, unless it is there already; resolves to its id. Rejects with `InvalidRequestError` where that one was asked something else. */
export async function addOnce(store: RunStore, run: NewRun): Promise<string> {
  try {
    await store.add(run, 'queued');
  } catch (error) {
    const kept = await store.find(run.runId);
    if (!kept) throw error;
    if (!isRepeated(kept, run))
      throw new InvalidRequestError(
        'invalid_request',
        'This request id was used for another question. Use a new id, or repeat the same question.',
      );
  }
  return run.runId;
}

function isRepeated({ request: kept }: RunRecord, { request }: NewRun): boolean {
  return ASKED.every((name) => isDeepStrictEqual(kept[name], request[name]));
}

/** A plain object as JSON, without its `undefined`s. */
export function toPlainJson(value: object): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}

/** The request that was kept, for whom it acts. */
export function fromDurableRequest(request: JsonObject, who: Pick<LoopRequest, 'actor' | 'tenant'>): LoopRequest {
  return { ...(request as Partial<LoopRequest>), ...who };
}

/** Values that are JSON, as a store gives them back: nobody else has hold of them. */
export function copiesOf<Value>(values: readonly Value[]): Value[] {
  return JSON.parse(JSON.stringify(values)) as Value[];
}
