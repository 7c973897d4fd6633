import type {
  FinishReason,
  ModelAnswer,
  ModelRequest,
  RunFailure,
  ToolCall,
  ToolErrorCode,
  ToolFailure,
  ToolInvocationRecord,
  Usage,
} from '@toolloop/protocol';
import type { Tool } from '../contracts/tool.js';
import type { RunView } from './run-view.js';

/** The points of a run. A hook sees the run, and never another plugin. */
export interface RunPoints {
  /** Returns whether the plugin takes part in the run. @default it does */
  open?(run: RunView): boolean;
  /** Runs around a run, or around the part of it until it waits. It observes. */
  aroundRun?(run: RunView, next: Next<RunEnd>): Promise<unknown>;
  /** Runs around one question to a model. It observes. */
  aroundModel?(
    question: ModelQuestion,
    next: Next<AnsweredQuestion>,
    run: RunView,
  ): Promise<unknown>;
  /**
   * Returns the present trace context as text, for a run that is asked for here and begins in
   * another process: a W3C `traceparent`. Undefined if there is none.
   */
  traceContext?(): string | undefined;
  /** Called before each step. The first plugin that returns an end ends the run. */
  stepping?(run: RunView): Awaitable<PluginFinish | void>;
  /** Observes what an answer has used. The run waits for it. */
  answered?(answer: PaidAnswer, run: RunView): Awaitable<void>;
  /**
   * Called before the calls of a step are made, with those that no plugin before has refused.
   * Returns the ones that are not to be made.
   */
  admit?(calls: readonly PlannedCall[], run: RunView): Awaitable<readonly CallLimit[] | void>;
  /** Called after each step. The first plugin that returns an end ends the run. */
  stepped?(step: EndedStep, run: RunView): Awaitable<PluginFinish | void>;
}

/** An answer now or later. */
export type Awaitable<Value> = Value | Promise<Value>;

/**
 * Does what a hook is around. It is done once, and done as well if the hook does not ask for it.
 */
export type Next<Made> = () => Promise<Made>;

/** The reasons for which a plugin may end a run. */
export const PLUGIN_REASONS = [
  'stop',
  'max_steps',
  'max_calls',
  'budget',
  'no_progress',
  'forbidden',
  'tool_error',
] as const satisfies readonly FinishReason[];

/** The codes with which a plugin may refuse a call. */
export const PLUGIN_REFUSALS = [
  'invalid_args',
  'forbidden',
  'policy_denied',
  'approval_denied',
  'budget_exceeded',
  'aborted',
  'execution_failed',
] as const satisfies readonly ToolErrorCode[];

/** The end that a plugin gives a run. */
export interface PluginFinish {
  readonly reason: (typeof PLUGIN_REASONS)[number];
  readonly detail?: string;
}

/** A call that a step is about to make. */
export interface PlannedCall {
  /** The call as the model made it. */
  readonly call: ToolCall;
  /** Position among the calls of the step, from 0. */
  readonly index: number;
  /** Absent if the call names no tool. */
  readonly tool?: Tool | undefined;
  /** True if a process that is gone has made it: it has its outcome, and cannot be refused. */
  readonly isMade: boolean;
}

/** The refusal of a call that a plugin does not admit. */
export interface CallLimit {
  /** The `index` of the call. */
  readonly index: number;
  readonly refusal: ToolFailure;
  /** The end that the run comes to once the step is over. @default it continues */
  readonly finish?: PluginFinish;
}

/** A step whose results are all in the transcript. */
export interface EndedStep {
  /** From 1. */
  readonly step: number;
  readonly records: readonly ToolInvocationRecord[];
  /** The ids of the tools that the model was offered. */
  readonly offered: readonly string[];
  /** The messages of the transcript by now. */
  readonly messageCount: number;
  /** The usage of the run by now. */
  readonly usage: Usage;
}

/** One question to a model. */
export interface ModelQuestion {
  readonly step: number;
  readonly provider: string;
  readonly modelId: string;
  /** In the model's projection: it may hold private data. */
  readonly request: ModelRequest;
}

/** The answer to a question to a model, as far as it came. */
export interface AnsweredQuestion {
  readonly answer: ModelAnswer;
  /** Set if the answer was cut short. */
  readonly failure?: unknown;
}

/** An answer of a model that was paid for, also for one that the transcript does not show. */
export interface PaidAnswer {
  /** As `provider/modelId`. */
  readonly model: string;
  readonly usage: Usage;
}

/** The state in which a run, or a part of it, ended. */
export interface RunEnd {
  /** Absent if the run continues in another process. */
  readonly finish?:
    | { readonly reason: FinishReason; readonly detail?: string; readonly error?: RunFailure }
    | undefined;
  /** The usage of the whole run until now. */
  readonly usage: Usage;
  readonly step: number;
}
