import type { ToolInvocationRecord, Usage } from '@toolloop/protocol';
import type { RunContext } from './tool-call.js';

/**
 * Ends a run where it answers `true` for the step that has just ended; it is not asked of a step
 * that ends the run anyway. What it throws ends the run with `error`, and so does silence: it is
 * waited for no longer than a tool's call.
 */
export type StopCondition = (step: FinishedStep) => boolean | Promise<boolean>;

/** A step that is over: its answer is whole, and each of its calls has its result. */
export interface FinishedStep {
  /** From 1. */
  readonly step: number;
  /** The text of the step's answer. */
  readonly text: string;
  /** The calls of this step, in the order of the model. */
  readonly toolCalls: readonly ToolInvocationRecord[];
  /** The usage of the run so far. */
  readonly usage: Usage;
  readonly run: RunContext;
}
