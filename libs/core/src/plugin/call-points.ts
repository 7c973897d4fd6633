import type {
  ApprovalTerms,
  Decision,
  JsonObject,
  JsonValue,
  ToolCall,
  ToolFailure,
  ToolInvocationRecord,
  ToolMessage,
} from '@toolloop/protocol';
import type { PendingKind } from '../contracts/pending.js';
import type { Tool } from '../contracts/tool.js';
import type { Awaitable, Next } from './run-points.js';
import type { RunView } from './run-view.js';

/** The points of a call. */
export interface CallPoints {
  /** Runs around the whole call, refusals included. It observes. */
  aroundCall?(call: OpenedCall, next: Next<CallOutcome>): Promise<unknown>;
  /**
   * Makes policy's decision on a call stricter. Each plugin is asked, and the strictest ruling
   * counts; once more if the call waits. It answers at once. If it throws, the call is denied. A
   * tool stays listed, whatever a plugin says of its calls.
   */
  judge?(call: CheckedCall): CallRuling | void;
  /**
   * Puts on record what is about to happen. If it rejects, that does not happen. There is no call
   * in an entry about the run.
   */
  record?(entry: RecordEntry, run: RunView, call?: CheckedCall): Promise<void>;
  /**
   * Called for a call that may be made, before anything is done in its name, and once more if it
   * waits after that. A refusal that is returned is the result of the call. In a rehearsal, which
   * has no effect, it is not called.
   */
  beforeEffect?(call: CheckedCall): Awaitable<ToolFailure | void>;
  /** Observes that the method is about to be called. Not awaited. */
  started?(call: StartedCall): void;
  /**
   * Changes what is read of an outcome, for each plugin after the one before it: a failure has one,
   * and so has a call that was made before. If it fails, neither model nor application reads the
   * result. What a method streams while it runs is not shown to it.
   */
  result?(call: OpenedCall, outcome: CallOutcome): Awaitable<ResultChange | void>;
  /**
   * Observes the outcome, before the result is told. What it throws is logged: the effect took
   * place.
   */
  concluded?(call: OpenedCall, outcome: CallOutcome): Awaitable<void>;
}

/** A call that was asked for. */
export interface OpenedCall {
  readonly request: {
    readonly call: ToolCall;
    /** From 1. */
    readonly step: number;
    /** Position among the calls of the step, from 0. */
    readonly index: number;
    /** Set if the call is a sub-run that has begun, and waited. */
    readonly checkpoint?: object;
  };
  readonly run: RunView;
  readonly startedAt: Date;
  /** Absent until the call is known to name a tool that it may name. */
  readonly tool?: Tool;
  readonly input?: { readonly canonical: string; readonly args: JsonObject };
  readonly decision?: Decision;
  /**
   * Set once its method is about to be called: true if it was called before, and the call has
   * waited since.
   */
  readonly isContinued?: boolean;
}

/** A call whose arguments passed every check. */
export type CheckedCall = OpenedCall & Required<Pick<OpenedCall, 'tool' | 'input'>>;

/** A call whose method is about to be called. */
export type StartedCall = CheckedCall & Required<Pick<OpenedCall, 'isContinued'>>;

/** The outcome of a call. */
export interface CallOutcome {
  readonly record: ToolInvocationRecord;
  readonly content: ToolMessage['content'];
  /** True if a store left the call open, so that its run ends without knowing more. */
  readonly isPending?: boolean;
}

/** The ruling of a plugin on a call. It counts if it is stricter than policy is. */
export interface CallRuling {
  readonly kind: 'deny' | 'require_approval';
  /** The reason that people and the audit are told; the model is told that of a missing tool. */
  readonly reason: string;
  /** The terms that the approver must meet, all of them. @default the actor of the run */
  readonly approval?: readonly ApprovalTerms[];
}

/** Another reading of an outcome, in the place of the one that there is. */
export interface ResultChange {
  /** The text that the model reads, or its parts. Text is cut to `limits.resultBytes`. */
  readonly content?: CallOutcome['content'];
  /** The result that the application shows. Set for a call that succeeded only. */
  readonly result?: JsonValue;
  /** The words of a failure. Set for a call that did not succeed only. */
  readonly error?: FailureWords;
  /**
   * True if someone outside may have chosen a part of it. Changed content is taken for that anyway,
   * unless the labels of its tool say that it returns what is trusted.
   */
  readonly isFromOutside?: true;
}

/** The words of a failure, for the model and the application. Without `problems` there are none. */
export type FailureWords = Pick<ToolFailure, 'safeMessage' | 'problems'>;

/** A call that waits, and for what. */
export interface HeldCall {
  /** The kind of the answer that it waits for, such as `approval`. */
  readonly kind: PendingKind;
  readonly id: string;
  readonly expiresAt: string;
  /** The reason that people are told. */
  readonly reason?: string;
}

/** Something that must be on record before it happens. */
export type RecordEntry =
  | { readonly kind: 'decision'; readonly decision: Decision }
  /** The call waits, or the run does for calls that it has shown. */
  | { readonly kind: 'hold'; readonly held: HeldCall; readonly at?: PlaceInRun }
  /** The effect of the call happens later, under this id. */
  | { readonly kind: 'later'; readonly id: string; readonly details: JsonObject };

/** The call at which a run has come to a wait that is not the call's own. */
export interface PlaceInRun {
  readonly toolCallId: string;
  readonly declaredId: string;
  readonly step: number;
}
