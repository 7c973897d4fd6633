import type { Toolset } from '../catalog/toolset.js';
import type { BegunSubRun } from '../execution/sub-runs.js';
import type { ToolOutcome } from '../execution/execution.scope.js';
import type { ModelAnswer } from './answer.assembler.js';
import type { Finish } from './loop.state.js';

/** A step whose calls are not all made: the answer that made them, and what became of those that are done. It is not in the transcript yet. */
export interface PendingStep {
  readonly answer: ModelAnswer;
  /** What the model was offered. */
  readonly offered: Toolset;
  /** Whether its calls were counted: else a process ended before it knew what became of them, and they are counted again. */
  readonly isPlanned: boolean;
  /** Of each call that was begun, in their order; those that wait are pending. */
  readonly outcomes: readonly ToolOutcome[];
  /** Sub-runs of its calls that a process which is gone had begun, as far as they came. */
  readonly begun?: readonly (BegunSubRun & { readonly toolCallId: string })[];
  /** The limit that a call of the step reached. */
  readonly limit?: Pick<Finish, 'reason' | 'detail'>;
}

/** The sub-run that a call of the step has begun: broken off with its process, or waiting. */
export function begunIn(
  { begun = [], outcomes }: Pick<PendingStep, 'begun' | 'outcomes'>,
  toolCallId: string,
  index: number,
): BegunSubRun | undefined {
  return begun.find((one) => one.toolCallId === toolCallId) ?? outcomes.find(({ record }) => record.index === index)?.begun;
}
