import type {
  FinishReason,
  ModelAnswer,
  ModelRequest,
  RunFailure,
  ToolInvocationRecord,
  Usage,
} from '@toolloop/protocol';
import type { RunView } from './run-view.js';

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

/** The end that a plugin gives a run. */
export interface PluginFinish {
  readonly reason: (typeof PLUGIN_REASONS)[number];
  readonly detail?: string;
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
  /** Called after each step. The first plugin that returns an end ends the run. */
  stepped?(step: EndedStep, run: RunView): Awaitable<PluginFinish | void>;
}
