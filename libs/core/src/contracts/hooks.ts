import type {
  ToolCall,
  ToolEffect,
  ToolInvocationRecord,
  ToolSpec,
  Usage,
} from '@toolloop/protocol';
import { defineOptions } from '../findings/options.js';
import { FUNCTION } from '../findings/option-rules.js';
import type { RegisteredActor } from './registered-actor.js';
import type { RunContext } from './tool-call.js';

export const HOOKS = defineOptions<LoopHooks>({
  onToolStart: FUNCTION,
  onToolEnd: FUNCTION,
  onIteration: FUNCTION,
});

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
