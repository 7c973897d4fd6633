import type {
  FinishReason,
  JsonObject,
  LoopEvent,
  LoopEventSink,
  WaitingFor,
} from '@toolloop/protocol';
import {
  CallJournal,
  type JournalHold,
  type JournalOutcome,
  type JournalStart,
} from './call-journal.js';
import type { OwedEntry } from './owed-entry.js';
import type { Lease, LeaseHold, LeaseRequest } from './lease.js';
import { StoreRefusalError } from './store-refusal.js';

/**
 * The port that keeps runs: of each an append-only log, and whose turn it is. Every method is one
 * atomic operation.
 *
 * @example
 * ToolLoopModule.forRoot({ model, providers: [{ provide: RunLog, useClass: RedisRunLog }] })
 */
export abstract class RunLog {
  /**
   * Makes ready what it needs; called once, when the application starts and outside of any
   * transaction.
   */
  abstract open(): Promise<void>;
  /**
   * Adds a run: `queued` for any process with room, `waiting` for its actor. Rejects for an id that
   * is there.
   */
  abstract add(run: NewRun, status: 'queued' | 'waiting'): Promise<void>;
  /** Adds a run that the caller runs. Rejects for an id that is there. */
  abstract begin(run: NewRun, request: LeaseRequest): Promise<Lease>;
  /**
   * Leases a run that is queued or waits, or whose lease has expired; with an `epoch` only if it
   * has had no lease since that one. The same owner again gets its lease again. `undefined` where
   * there is nothing to lease.
   */
  abstract acquire(
    runId: string,
    request: LeaseRequest,
    epoch?: number,
  ): Promise<LeasedRun | undefined>;
  /**
   * Appends all of it, or rejects: with `RunLostError` where the hold does not hold, and where
   * later events are kept: that is an attempt which was given up and arrives late. The same write
   * twice is kept once. A run that is to wait, and was woken or cancelled meanwhile, is queued
   * instead, if it is durable. Resolves to the leases of the calls begun with it, in their order,
   * undefined for a key that was taken.
   */
  abstract append(hold: RunHold, write: RunWrite): Promise<void | readonly (Lease | undefined)[]>;
  /**
   * Tells if a write may begin and finish calls of this journal, in one transaction: of one in the
   * same database.
   */
  keepsCallsOf(_journal: CallJournal): boolean {
    return false;
  }
  /**
   * Has the leases of these runs expire in so many milliseconds from now; resolves to the runs that
   * are still held.
   */
  abstract renew(
    holds: readonly RunHold[],
    forMs: number,
  ): Promise<readonly Pick<RunRecord, 'runId' | 'cancelled'>[]>;
  /**
   * Gives a run back: a durable one is queued, any other waits again. Does nothing where the hold
   * does not hold. One that is put off is handed out at its time, or once it is woken or cancelled,
   * and its record says how often that was.
   */
  abstract release(hold: RunHold, putOff?: PutOff): Promise<void>;
  /** Queues the durable runs whose lease has expired; resolves to their number. */
  abstract requeueExpired(): Promise<number>;
  /** Queues a durable run that waits. One that is about to wait will not. */
  abstract wake(runId: string): Promise<void>;
  /**
   * Hands a durable run out at that time or soon after, so that it is looked at again. Does nothing
   * for any other.
   */
  abstract wakeAt(runId: string, at: Date): Promise<void>;
  /**
   * Says that a run is to end; a durable one that waits is queued, so that a process ends it. Does
   * nothing where it has ended.
   */
  abstract cancel(runId: string, reason: string): Promise<void>;
  abstract find(runId: string): Promise<RunRecord | undefined>;
  /** The newest first. */
  abstract list(query: RunQuery): Promise<readonly RunRecord[]>;
  /** The entries, in the order in which they were appended. */
  abstract read(runId: string): Promise<readonly RunEntry[]>;
  abstract events(runId: string, page: EventPage): Promise<readonly LoopEvent[]>;
  /**
   * Keeps entries that another store has not taken, as a write with `owed` does: of calls without a
   * write of their own. One that is kept already stays as it is. They are kept until they are
   * settled, however long their runs are.
   */
  abstract owe(entries: readonly OwedEntry[]): Promise<void>;
  /** Returns those entries, of all tenants, in the order of `at` and `entryId`. */
  abstract listOwed(page: OwedPage): Promise<readonly OwedEntry[]>;
  /** Drops those of the entries that their store has by now. */
  abstract settle(entryIds: readonly string[]): Promise<void>;
  /**
   * Calls `changed` after something was appended for the run, perhaps more often. It has thousands
   * of callers at once, and they do not look by themselves: a change is told within seconds even
   * where its notification was lost. Resolves to what ends it.
   */
  abstract watch(runId: string, changed: () => void): Promise<() => Promise<void>>;
  /**
   * Hands queued runs to `advance`, at most so many at once, and again where it rejects. Resolves
   * to what ends it, without waiting.
   */
  abstract work(
    advance: (runId: string) => Promise<void>,
    most: number,
  ): Promise<() => Promise<void>>;
}

/**
 * An entry of a run's log: one thing that the run must know again to be resumed elsewhere. The key
 * comes from the entry itself, never from a counter of writes: `begin`, `model:3`, `tool:call_1`,
 * `step:3`, `input:1`, `wait:3:71`, `end:4:90`, and those of a sub-run behind `sub:<its run id>/`.
 * Writing a key again replaces the entry. A run that is not durable has one entry, and only while
 * it is suspended: a `wait` with all of it.
 */
export type RunEntry =
  RunStateEntry | RunCallEntry | RunInputEntry | PluginValuesEntry | SubRunEntry;

/**
 * The parts of a run that have changed by then. The first entry tells the version of all: a run of
 * another one is refused.
 */
export interface RunStateEntry {
  readonly type: 'begin' | 'model' | 'step' | 'wait' | 'end';
  readonly key: string;
  readonly value: JsonObject;
}

/** The outcome of one call. */
export interface RunCallEntry {
  readonly type: 'tool';
  readonly key: string;
  readonly value: JsonObject;
}

/**
 * The values of plugins before the effect of a call, kept with the key of the call: a process that
 * continues the run knows what they were when the effect began.
 */
export interface PluginValuesEntry {
  readonly type: 'values';
  readonly key: string;
  readonly value: JsonObject;
}

/** A message that the user added. */
export interface RunInputEntry {
  readonly type: 'input';
  readonly key: string;
  /** From 1, in the order in which they were given. */
  readonly number: number;
  readonly content: string;
  /** The id under which it was left, where another run of the conversation said it. */
  readonly from?: string;
}

/** The place of a sub-run in the run around it. */
export interface SubRunPlace {
  /** The id of the sub-run, a UUID. */
  readonly runId: string;
  /** The call of the run around it. */
  readonly toolCallId: string;
  /** The arguments with which it was begun. */
  readonly args: JsonObject;
}

/** An entry of a sub-run, as it was written. */
export interface SubRunEntry extends Pick<SubRunPlace, 'runId' | 'toolCallId'> {
  readonly type: 'sub-run';
  readonly key: string;
  /** With the entry with which it begins. */
  readonly args?: JsonObject;
  readonly entry: RunEntry;
}

/**
 * The log of one durable run while it continues here, from which another process can continue it.
 * It holds what the model read, so it is not for people to look at.
 */
export interface RunJournal {
  /** Takes the run's events; critical, so that no run is seen to end that is not kept as ended. */
  readonly sink: LoopEventSink;
  /**
   * Begins and finishes the calls of the run, each in one transaction with what was noted before;
   * absent where the calls are not kept beside the log. A key is taken only while the run is this
   * process's. An outcome is kept with the next entry that is recorded, or a few milliseconds
   * later; one that cannot be kept is logged.
   */
  readonly calls?: Pick<CallJournal, 'acquire' | 'finish'>;
  /**
   * False once the run was handed over or taken over, or its end could not be kept in time: then it
   * does nothing more here, and its log alone tells of it.
   */
  readonly isOurs: boolean;
  /**
   * The milliseconds for which an interrupted run waits until its last entries and events are kept.
   * A run without a reader may wait as long as its store takes. @default 35, since a reader waits
   */
  readonly closingMs?: number;
  /**
   * Keeps the entry, and what was noted before. Rejects where that is impossible; then what would
   * follow must not happen.
   */
  record(entry: RunEntry): Promise<void>;
  /**
   * Keeps what was noted before: for what others can see, and what is to follow. Rejects as
   * `record` does.
   */
  kept(): Promise<void>;
  /**
   * Keeps the entry with the next that is recorded, or soon: for what would do no harm if it
   * happened again. An entry of a wait or an end is kept with the `run-end` that follows it, and
   * not before.
   */
  note(entry: RunEntry): void;
  /**
   * Keeps entries that another store has not taken with the next entry that is recorded, and so
   * with the outcomes of which they tell. Never throws.
   */
  owe(entries: readonly OwedEntry[]): void;
  /**
   * Gives the run, where it was begun, to any process with room after a pause: a store failed, so
   * this one cannot continue it now, and writes nothing more. A run whose end is being written is
   * not given away, but is not told here any more either.
   *
   * @param cause the failure, for the log
   */
  handOver(cause: unknown): void;
  /**
   * Notes that the run was cancelled here. Where its end cannot be written, the process that has
   * the run then is told to end it.
   */
  cancel(reason: string): void;
}

/**
 * `queued`: any process with room is to continue it. `running`: a process does. `waiting`: for
 * decisions. `ended`: for good.
 */
export type RunStatus = 'queued' | 'running' | 'waiting' | 'ended';

/** A run in the log. */
export interface RunRecord {
  readonly runId: string;
  readonly tenant: string;
  /** The id of the actor for whom it runs. */
  readonly actorId: string;
  /** The name of its loop; absent for `ToolLoopService` itself. */
  readonly loop?: string;
  /**
   * The request as JSON, by which any process continues a durable run. Absent for a run that is not
   * durable: only its actor resumes it.
   */
  readonly request?: JsonObject;
  readonly status: RunStatus;
  /** The number of its last lease; 1 for a run that was added without one. */
  readonly epoch: number;
  /**
   * The lease of the process that continues it; of a running run alone. Once it has expired,
   * another process may acquire the run.
   */
  readonly lease?: Lease;
  /** Absent for a run that has not ended and does not wait. */
  readonly finishReason?: FinishReason;
  /** The kind of answer that a waiting run waits for. */
  readonly waitingFor?: WaitingFor;
  /** The sequence of its last event; 0 for none. */
  readonly lastSequence: number;
  /** The reason why it is to end. */
  readonly cancelled?: string;
  /** The times in a row that it was put off, since a store failed. Absent for none. */
  readonly putOffs?: number;
  /** The run from which it was forked, and the last step that both share. */
  readonly forkOf?: { readonly runId: string; readonly step: number };
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  /** ISO 8601, UTC. */
  readonly updatedAt: string;
}

/**
 * A run to add, with what is written of it at once: what another one did before, or its first
 * event.
 */
export type NewRun = Pick<
  RunRecord,
  'runId' | 'tenant' | 'actorId' | 'loop' | 'request' | 'forkOf' | 'waitingFor'
> &
  Partial<RunBeginning>;

/** The part of a run that is written with its row. */
export type RunBeginning = Pick<RunWrite, 'entries' | 'events'>;

/** A run, and the proof of its lease. */
export type RunHold = Pick<RunRecord, 'runId'> & LeaseHold;

/** The terms on which a run is put off, since a store failed. */
export interface PutOff {
  /** The times in a row, this one included. */
  readonly times: number;
  /** The time at which it is handed out again. */
  readonly until: Date;
}

/** A run that a process continues. */
export type LeasedRun = RunRecord & { readonly lease: Lease };

/** The part of a run that is appended at once, and how the run ended with it. */
export interface RunWrite {
  readonly entries: readonly RunEntry[];
  /**
   * The keys of entries that are dropped, since those that are appended say the same. None of them
   * is appended, or is the end of a step. @default none
   */
  readonly dropped?: readonly string[];
  readonly events: readonly LoopEvent[];
  /**
   * The calls that are begun and finished in the same transaction: only where `RunLog.keepsCallsOf`
   * says so. @default none
   */
  readonly calls?: CallsOfWrite;
  /** The entries that another store has not taken, each kept once. @default none */
  readonly owed?: readonly OwedEntry[];
  readonly ending?: { readonly status: 'waiting' | 'ended' } & Required<
    Pick<RunRecord, 'finishReason'>
  > &
    Pick<RunRecord, 'waitingFor'>;
}

/**
 * The calls of a journal that are begun and finished with a write of a run. One that is finished
 * is, even where the run is another process's by then.
 */
export interface CallsOfWrite {
  readonly begun: readonly JournalStart[];
  readonly finished: readonly FinishedCall[];
}

/** The outcome of a call, and the proof of its lease. */
export interface FinishedCall {
  readonly hold: JournalHold;
  readonly outcome: JournalOutcome;
}

/** A selection of one actor's runs. */
export interface RunQuery {
  readonly tenant: string;
  /** @default every actor of the tenant */
  readonly actorId?: string;
  readonly status?: RunStatus;
  /** @default 100 */
  readonly limit?: number;
  /** The id of the last one of the page before. */
  readonly after?: string;
}

/** A selection of a run's events. */
export interface EventPage {
  /** The sequence of the last one that is known. */
  readonly after: number;
  readonly limit: number;
}

/** A selection of the entries that the audit has not taken. */
export interface OwedPage {
  /** The last one of the page before. */
  readonly after?: Pick<OwedEntry, 'at' | 'entryId'>;
  readonly limit: number;
}

/** A hold does not hold any more: another process has acquired the run, or the run has ended. */
export class RunLostError extends StoreRefusalError {
  override readonly name = 'RunLostError';

  constructor({ runId, epoch }: RunHold) {
    super(`The run ${runId} is not this process's any more (epoch ${epoch}).`);
  }
}
