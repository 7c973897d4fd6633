import type {
  FinishReason,
  ModelAnswer,
  ModelRequest,
  RunFailure,
  RunIdentity,
  ToolCall,
  ToolEffect,
  ToolInvocationRecord,
  ToolSpec,
  Usage,
} from '@toolloop/protocol';
import { defineOptions } from '../findings/options.js';
import { FUNCTION } from '../findings/option-rules.js';
import type { RegisteredActor } from './identity.js';
import type { RunContext } from './tool-call.js';

/** A call that begins, in the ui projection: hidden arguments are `[redacted]`. */
export interface ToolStart<Actor = RegisteredActor> extends Omit<RunContext<Actor>, 'state'> {
  /** From 1. */
  readonly step: number;
  readonly tool: ToolSpec;
  /**
   * The arguments are those with which the tool is called: after the pipes, and as an approver may
   * have changed them.
   */
  readonly call: ToolCall;
  readonly effect: ToolEffect;
}

/** A call that has ended, in the ui projection. */
export interface ToolEnd<Actor = RegisteredActor> extends ToolStart<Actor> {
  readonly record: ToolInvocationRecord;
}

/**
 * Callbacks for the application's own logging and metrics. They only observe: the run does not wait
 * for them, and what they throw is logged once a run. Those of the application, the loop and the
 * request are all called, in this order.
 *
 * @example
 * hooks: {
 *   onToolEnd: ({ runId, tenant, tool, record }) =>
 *     logger.log({ runId, tenant, tool: tool.declaredId, ms: record.durationMs });
 * }
 */
export interface LoopHooks {
  /**
   * Called once for each call that begins, when the tool is about to be called. A call that is
   * refused or waits for a person has not begun; one that is answered with what it did before does
   * not begin again.
   */
  onToolStart?(event: ToolStart): void | Promise<void>;
  /**
   * Called once for each call that began. A call that is a run and waits ends when that run does,
   * possibly in another process.
   */
  onToolEnd?(event: ToolEnd): void | Promise<void>;
  onIteration?(iteration: LoopIteration, run: RunContext): void | Promise<void>;
}

/** A step that has ended. */
export interface LoopIteration {
  readonly runId: string;
  readonly step: number;
  /** The end of the step: ISO 8601, UTC. */
  readonly timestamp: string;
  /**
   * The messages of the transcript by then, with those that the run began with; the instructions
   * are not among them.
   */
  readonly messageCount: number;
  readonly toolCalls: readonly ToolInvocationRecord[];
  /** Ids of the toolset the model saw. */
  readonly tools: readonly string[];
  readonly usage: Usage;
}

/** A run, or the part of a run from its resumption on, as instrumentation sees it. */
export interface InstrumentedRun extends RunIdentity {
  readonly requestId: string;
  readonly conversationId?: string;
  /** The model of the run, as `provider/modelId`. */
  readonly model: string;
  /** The call that this run is. Absent in a root run. */
  readonly within?: { readonly runId: string; readonly toolCallId: string };
  /**
   * The trace context that the part before this one had, or that of the request that asked for it,
   * possibly in another process. Absent in a run that begins where it is asked for.
   */
  readonly resumedFrom?: string;
  /** The milliseconds that a durable run waited for a process. Absent in one that did not. */
  readonly queuedMs?: number;
}

/** The state in which a run, or a part of it, ended. */
export interface InstrumentedRunEnd {
  readonly finish?:
    | { readonly reason: FinishReason; readonly detail?: string; readonly error?: RunFailure }
    | undefined;
  /** The usage of the whole run until now. */
  readonly usage: Usage;
  readonly step: number;
}

/** One question to a model. */
export interface InstrumentedModelCall extends Pick<RunIdentity, 'runId' | 'tenant'> {
  readonly step: number;
  readonly provider: string;
  readonly modelId: string;
  /** In the model's projection: it may hold private data. */
  readonly request: ModelRequest;
}

/** The answer to a question to a model, as far as it came. */
export interface InstrumentedAnswer {
  readonly answer: ModelAnswer;
  /** Set where the answer was cut short. */
  readonly failure?: unknown;
}

/** One call of a tool, from its request to its result. */
export interface InstrumentedToolCall extends Pick<RunIdentity, 'runId' | 'tenant'> {
  readonly step: number;
  readonly toolCallId: string;
  /** The rendered id that the model used, also where no such tool exists. */
  readonly tool: string;
}

/** The outcome of a call. */
export interface InstrumentedOutcome {
  /** In the ui projection. */
  readonly record: ToolInvocationRecord;
  /** Set where the call waits, so that the record is not its last. */
  readonly isPending?: true;
}

/**
 * The port for tracing: it runs each run, each question to a model and each call of a tool in a
 * context of its own, so that what these do themselves is seen within them. An application has at
 * most one; without one nothing is paid. Each method calls `work` once and returns its result as it
 * is.
 *
 * @example
 * class Timing extends Instrumentation {
 *   async tool<Outcome extends InstrumentedOutcome>(
 *     { tool }: InstrumentedToolCall,
 *     work: () => Promise<Outcome>,
 *   ): Promise<Outcome> {
 *     const startedAt = performance.now();
 *     return work().finally(() => console.log(tool, performance.now() - startedAt));
 *   }
 *   // run, model and traceContext likewise
 * }
 */
export abstract class Instrumentation {
  abstract run<End extends InstrumentedRunEnd>(
    run: InstrumentedRun,
    work: () => Promise<End>,
  ): Promise<End>;
  abstract model<Asked extends InstrumentedAnswer>(
    call: InstrumentedModelCall,
    work: () => Promise<Asked>,
  ): Promise<Asked>;
  abstract tool<Outcome extends InstrumentedOutcome>(
    call: InstrumentedToolCall,
    work: () => Promise<Outcome>,
  ): Promise<Outcome>;
  /**
   * The present trace context as text, kept with a run that waits: a W3C `traceparent`. Undefined
   * where there is none.
   */
  abstract traceContext(): string | undefined;
}

export const HOOKS = defineOptions<LoopHooks>({
  onToolStart: FUNCTION,
  onToolEnd: FUNCTION,
  onIteration: FUNCTION,
});
