import type { ToolCall, ToolInvocationRecord } from '@toolloop/protocol';
import type { Limits } from '../contracts/limits.js';
import type { LoopRequest } from '../contracts/loop-request.js';
import type { PluginValue } from '../contracts/plugin-value.js';
import type { RunJournal } from '../contracts/run-log.js';
import type { RunContext } from '../contracts/tool-call.js';
import type { Slot } from './slot.js';

/** A run, as its plugins see it. */
export interface RunView extends Pick<RunFacts, 'limits' | 'signal'> {
  readonly runId: string;
  readonly tenant: string;
  readonly facts: RunFacts;
  /** The run around a sub-run. */
  readonly around?: RunView | undefined;
  /** Returns the value of a slot, made if it is the first time. */
  get<Value>(slot: Slot<Value>): Value;
  /** Replaces the value of a slot. A function is given the present value. */
  set<Value>(slot: Slot<Value>, next: (now: Value) => Value): void;
}

/**
 * The options of requests and loops that plugins read. A plugin adds its own by declaration
 * merging; each holds the values that were given, those of the loop first.
 */
export interface PluginRunOptions {
  /** The values with which slots begin, those of the loop first. */
  readonly values: readonly PluginValue[];
}

/** The calls that a run had made when this process began to continue it. */
export interface EarlierCalls {
  /** The calls as the model made them, in their order. */
  readonly calls: readonly ToolCall[];
  /** The records of the steps that are over, in their order. */
  readonly ended: readonly ToolInvocationRecord[];
  /** The records of a step that is not over, and of the sub-runs that it has begun. */
  readonly begun: readonly ToolInvocationRecord[];
}

/** The facts of a run that do not change while it lasts. */
export interface RunFacts {
  /** The run as tools know it: its actor, its tenant and the values that the application gave. */
  readonly context: RunContext;
  readonly requestId: string;
  readonly actorId?: string | undefined;
  /** The name of its loop. Absent for `ToolLoopService` itself. */
  readonly loop?: string | undefined;
  readonly conversationId?: string | undefined;
  /** The model of the run, as `provider/modelId`. Absent if it asks none. */
  readonly model?: string | undefined;
  /** The call that this run is, and the declared id of its tool. Absent in a root run. */
  readonly within?:
    { readonly runId: string; readonly toolCallId: string; readonly tool: string } | undefined;
  /**
   * The trace context of the request that asked for the run. Absent in a run that begins where it
   * is asked for.
   */
  readonly askedFrom?: string | undefined;
  /** The milliseconds that a durable run waited for a process. Absent in one that did not. */
  readonly queuedMs?: number | undefined;
  /** The reason for which the application vouches for the client that makes the calls. */
  readonly vouchedFor?: string | undefined;
  /** `dry`: nothing that the run does is kept. */
  readonly mode: 'live' | 'dry';
  /** Says what becomes of a call that a person must approve. */
  readonly approvals: NonNullable<LoopRequest['approvals']>;
  /** Returns the calls that were made before. Absent in a run that begins here. */
  readonly earlier?: (() => EarlierCalls) | undefined;
  readonly limits: Limits;
  /**
   * Returns the journal of the run, which keeps what a store has not taken yet. Nothing in a run
   * that is not durable.
   */
  readonly journal?: () => Pick<RunJournal, 'owe'> | undefined;
  readonly options: Partial<PluginRunOptions>;
  readonly signal: AbortSignal;
}
