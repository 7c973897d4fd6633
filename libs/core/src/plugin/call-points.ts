import type {
  Decision,
  JsonObject,
  ToolCall,
  ToolInvocationRecord,
  ToolMessage,
} from '@toolloop/protocol';
import type { PendingKind } from '../contracts/pending.js';
import type { Tool } from '../contracts/tool.js';
import type { Awaitable, Next } from './run-points.js';
import type { RunView } from './run-view.js';

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

/** The points of a call. */
export interface CallPoints {
  /** Runs around the whole call, refusals included. It observes. */
  aroundCall?(call: OpenedCall, next: Next<CallOutcome>): Promise<unknown>;
  /**
   * Puts on record what is about to happen. If it rejects, that does not happen. There is no call
   * in an entry about the run.
   */
  record?(entry: RecordEntry, run: RunView, call?: CheckedCall): Promise<void>;
  /** Observes that the method is about to be called. Not awaited. */
  started?(call: StartedCall): void;
  /**
   * Observes the outcome, before the result is told. What it throws is logged: the effect took
   * place.
   */
  concluded?(call: OpenedCall, outcome: CallOutcome): Awaitable<void>;
}
