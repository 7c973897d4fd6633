import type { FinishReason, JsonObject, LoopEvent, RunEntry } from '@toolloop/core';

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
