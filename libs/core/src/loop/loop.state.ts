import type { Toolset } from '../catalog/toolset.js';
import type { Citation } from '../protocol/citation.js';
import type { FinishReason, RunFailure } from '../protocol/loop-result.js';
import type { Message, MessageLabels } from '../protocol/message.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';
import type { ToolSpec } from '../protocol/tool.js';
import { NO_USAGE, type Usage } from '../protocol/usage.js';
import type { AppliedCut } from './history/sent-history.js';
import type { PendingStep } from './pending.step.js';
import type { StructuredOutput } from './structured.answer.js';

/** Why a run is over. */
export interface Finish {
  readonly reason: FinishReason;
  readonly error?: RunFailure;
  /** Which limit or condition it was, where the reason alone does not tell. */
  readonly detail?: string;
  /** For the log and the rejection only. */
  readonly cause?: unknown;
}

/** A run after a step. Replaced, never changed; the transcript in it is valid at every step. */
export interface LoopState {
  readonly step: number;
  readonly messages: readonly Message[];
  /** What of the messages is sent. @default all */
  readonly cut?: AppliedCut;
  readonly toolset: Toolset;
  readonly usage: Usage;
  readonly records: readonly ToolInvocationRecord[];
  readonly injected: readonly ToolSpec[];
  /** Of the last answer. */
  readonly text: string;
  readonly citations: readonly Citation[];
  readonly output?: StructuredOutput;
  /** Answers that were not what `output` asks for. */
  readonly corrections: number;
  readonly emptyAnswers: number;
  readonly finish?: Finish;
  /** What the model has read by now is worth; known once the run is over. */
  readonly read?: MessageLabels;
  /** The step that waits for decisions, where the run does. */
  readonly pending?: PendingStep;
}

/** A run before its first step. */
export function firstState(toolset: Toolset): LoopState {
  return {
    step: 0,
    messages: [],
    toolset,
    usage: NO_USAGE,
    records: [],
    injected: [],
    text: '',
    citations: [],
    corrections: 0,
    emptyAnswers: 0,
  };
}
