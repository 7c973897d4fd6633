import type { JsonObject, JsonValue, LoopEventSink, Message, RecordedAttachment, ToolFailure } from '@toolloop/protocol';
import type { ApprovalStore } from './approval.js';
import type { AuditStore } from './audit.js';
import type { DirectiveStore } from './directive.js';
import type { QuotaStore } from './limits.js';
import type { LoopProfile, LoopRequest, RunHandle } from './loop-request.js';

/**
 * Adapters of the ports that keep something, given by a library with a database. A global module that exports a provider of this class replaces those in
 * memory; `forRoot({ providers })` of the application replaces both. What is absent stays in memory.
 */
export abstract class ToolLoopStores {
  abstract readonly approvals?: ApprovalStore;
  abstract readonly audit?: AuditStore;
  abstract readonly conversations?: ConversationStore;
  readonly directives?: DirectiveStore;
  abstract readonly journal?: CallJournal;
  abstract readonly quotas?: QuotaStore;
  abstract readonly suspendedRuns?: SuspendedRunStore;
  /** Absent where there is no database that tools could use as well. */
  abstract readonly transactions?: CallTransactions;
}

/** Whose conversation it is. An id alone opens nothing: tenant and actor are part of the key. */
export interface ConversationKey {
  readonly tenant: string;
  readonly actorId: string;
  readonly conversationId: string;
}

/** Whose conversations. */
export type ConversationOwner = Pick<ConversationKey, 'tenant' | 'actorId'>;

/** A conversation in a list. */
export interface ConversationSummary {
  readonly conversationId: string;
  /** How many are kept. */
  readonly messages: number;
  /** When something was appended last; ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** Which conversations to list. */
export interface ConversationListing {
  /** @default 100 */
  readonly limit?: number;
  /** The id of the last one of the page before. */
  readonly after?: string;
}

/** Which messages to read. */
export interface MessagePage {
  /** Position of the first one, from 0, among those that are kept. */
  readonly from: number;
  readonly limit: number;
}

/** The port that keeps conversations between runs. */
export abstract class ConversationStore {
  /** Empty for a conversation that does not exist. */
  abstract load(key: ConversationKey): Promise<readonly Message[]>;
  /**
   * Appends what a run added, as one unit, so that no call is kept without its result. What the same run had appended before is replaced, in its place: a durable run
   * whose process died at its end ends once more.
   */
  abstract append(key: ConversationKey, messages: readonly Message[], runId?: string): Promise<void>;
  /** Those of one actor in one tenant, the last used first. */
  abstract list(owner: ConversationOwner, listing?: ConversationListing): Promise<readonly ConversationSummary[]>;
  /** In order; empty past the end, and for a conversation that does not exist. */
  abstract read(key: ConversationKey, page: MessagePage): Promise<readonly Message[]>;
  /** Whether there was one. A run of it that still goes on begins it anew. */
  abstract delete(key: ConversationKey): Promise<boolean>;
}

/** Identifies a call across attempts, resumes and processes. */
export interface JournalKey {
  readonly tenant: string;
  /** Of the place of the call in its request, or of what the tool declares; two tools never share one. */
  readonly idempotencyKey: string;
}

/** A key, and whose it is now: who lost it to somebody else neither ends the call nor gives the key back. */
export interface JournalHold extends JournalKey {
  /** Of one attempt to make the call, made up by who attempts it; no two are the same. */
  readonly claimId: string;
}

/** A call, as its key is bound to it. */
export interface JournalCall extends JournalKey {
  readonly declaredId: string;
  readonly instanceId?: string;
  /** Canonical JSON. */
  readonly args: string;
}

/** What is written before the effect. */
export interface JournalStart extends JournalHold, JournalCall {
  readonly runId: string;
  /** Milliseconds from now within which the call ends, if it ever does. */
  readonly mostMs: number;
}

/** What a finished call came to; enough to answer the model again without a second effect. */
export type JournalOutcome =
  | {
      readonly status: 'succeeded';
      /** What the model read, its images and files left out. */
      readonly content: string;
      readonly ui: JsonValue;
      readonly attachments?: readonly RecordedAttachment[];
      /** Set where the effect took place and only its answer is missing: why it is. `content` says the same. */
      readonly failure?: ToolFailure;
    }
  | { readonly status: 'failed'; readonly failure: ToolFailure };

/**
 * A call that was begun. `in_progress`: it has not ended, and has so many milliseconds left to; with none left whoever began it is gone. It has `kept` once its
 * `context.transaction` was committed: then its effect took place, and this is what it returned.
 */
export type JournalEntry =
  | { readonly status: 'in_progress'; readonly leftMs: number; readonly kept?: { readonly result?: unknown } }
  | { readonly status: 'finished'; readonly outcome: JournalOutcome };

/** `started`: nobody has run this key yet, and now it is taken. `conflict`: the key belongs to another call. */
export type JournalClaim = { readonly status: 'started' | 'conflict' } | JournalEntry;

/** The port that performs a mutating call at most once per idempotency key: the key is taken before the effect. */
export abstract class CallJournal {
  /** Takes the key, atomically, or says what became of it. By the same claim again, as after an answer that was lost, it is `started`. */
  abstract begin(start: JournalStart): Promise<JournalClaim>;
  /** What became of a call, and takes nothing; undefined where it was not begun. */
  abstract find(call: JournalCall): Promise<JournalEntry | undefined>;
  /**
   * Takes the key of a call that is in progress from whoever has it, for a call that ends within so many milliseconds. False where nobody has it: the call has ended,
   * or was never begun.
   */
  abstract takeOver(hold: JournalHold, mostMs: number): Promise<boolean>;
  /** Keeps what became of a call; from then on the key answers with it. Does nothing for who does not have the key. */
  abstract finish(hold: JournalHold, outcome: JournalOutcome): Promise<void>;
  /** Gives a key back whose call was never begun, so that the same call may be made later. Does nothing for who does not have the key. */
  abstract release(hold: JournalHold): Promise<void>;
}

/** The port behind `context.transaction`: effects in the same database as the journal, exactly once. */
export abstract class CallTransactions {
  /**
   * Runs `work` in one transaction, together with a mark that this call has been done, and resolves to what it returned, as the JSON that a model would read. Where the mark is there
   * already it resolves to what was kept, and `work` is not run. Rejects, with nothing done, where `work` rejects and for a call that the journal has not begun.
   */
  abstract once<Result>(call: JournalKey, work: () => Promise<Result>): Promise<Result>;
}

/** A run that waits for decisions, as JSON: enough to go on after them. */
export interface SuspendedRun {
  /** Of the form of `content`; a run of another version is refused. */
  readonly version: 2;
  readonly runId: string;
  readonly tenant: string;
  /** For whom it runs; nobody else resumes it. */
  readonly actorId?: string;
  readonly content: JsonObject;
}

/** The port that keeps runs which wait for decisions. */
export abstract class SuspendedRunStore {
  abstract save(run: SuspendedRun): Promise<void>;
  abstract find(runId: string): Promise<SuspendedRun | undefined>;
  /** Takes the run out, atomically: of two who resume it at once one gets it. */
  abstract take(runId: string): Promise<SuspendedRun | undefined>;
}

/**
 * An entry of a run's log: one thing that the run must know again to be resumed elsewhere. The key comes from the entry itself, never from a counter of
 * writes: `begin`, `model:3`, `tool:call_1`, `step:3`, `input:1`, `wait:3:71`, `end:4:90`, and those of a sub-run behind `sub:<its run id>/`. Writing a key
 * again replaces the entry.
 */
export type RunEntry = RunStateEntry | RunCallEntry | RunInputEntry | SubRunEntry;

/** The parts of a run that have changed by then. `begin` tells the version of all entries: a run of another one is refused. */
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

/** A message that the user added. */
export interface RunInputEntry {
  readonly type: 'input';
  readonly key: string;
  /** From 1, in the order in which they were given. */
  readonly number: number;
  readonly content: string;
}

/** The place of a sub-run in the run around it. */
export interface SubRunPlace {
  /** Of the sub-run; a UUID. */
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

/** What keeps one run while it goes on, so that another process can go on with it. It holds what the model read: it is no place for people to look at. */
export interface RunJournal {
  /** Takes the run's events; critical, so that no run is seen to end that is not kept as ended. */
  readonly sink: LoopEventSink;
  /** Whether the run is still this process's: it may have been handed over, or taken over. Then it goes on elsewhere and does nothing more here. */
  readonly isOurs: boolean;
  /** Keeps the entry, and what was noted before. Rejects where that is impossible; then what would follow must not happen. */
  record(entry: RunEntry): Promise<void>;
  /**
   * Keeps the entry with the next that is recorded, or soon: for what would do no harm if it happened again. An entry of a wait or an end is kept with the
   * `run-end` that follows it, and not before.
   */
  note(entry: RunEntry): void;
  /** Gives the run to whoever has room, with what was kept of it, where it was begun: this process cannot continue it now. Nothing more is written. */
  handOver(): void;
}

/** The options that hold for a run, by the name of its loop; without one for those of `ToolLoopService` itself. */
export interface NamedProfile {
  readonly name?: string;
  readonly profile: LoopProfile;
}

/** The port behind `durable: true`: opens runs that outlive their process. `@toolloop/durable` binds it. */
export abstract class DurableRuns {
  /** Throws `InvalidRequestError` for a request that no other process could go on with. */
  abstract open<Output, Actor>(request: LoopRequest<Output, Actor>, loop: NamedProfile): RunHandle<Output>;
}
