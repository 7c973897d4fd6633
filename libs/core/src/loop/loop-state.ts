import {
  type AssistantMessage,
  type Citation,
  type FinishReason,
  type HiddenValue,
  type LanguageModel,
  type Message,
  type MessageLabels,
  type ModelAnswer,
  type ModelErrorCode,
  type ModelRequest,
  NO_USAGE,
  type RehearsalReport,
  type RunFailure,
  type ToolCall,
  type ToolInvocationRecord,
  type Usage,
  type WaitingFor,
} from '@toolloop/protocol';
import type { ToolOutcome } from '../call/outcome.js';
import type { Toolset } from '../catalog/toolset.js';
import type { HistoryCut } from '../contracts/history.js';
import type { LoopRequest } from '../contracts/loop-request.js';
import type { StructuredOutput } from '../plugins/structured-output/structured-answer.js';
import type { SubRunCheckpoint } from '../plugins/sub-runs/sub-runs.js';

/** A run after a step. Replaced, never changed; the transcript in it is valid at every step. */
export interface LoopState {
  readonly step: number;
  readonly messages: readonly Message[];
  /** The part of the messages that is sent. @default all */
  readonly cut?: AppliedCut;
  readonly toolset: Toolset;
  readonly usage: Usage;
  readonly records: readonly ToolInvocationRecord[];
  /** The text of the last answer. */
  readonly text: string;
  readonly citations: readonly Citation[];
  readonly output?: StructuredOutput;
  /** Answers that were not what `output` asks for. */
  readonly corrections: number;
  readonly emptyAnswers: number;
  readonly finish?: Finish;
  /** The labels of everything the model has read; known once the run is over. */
  readonly read?: MessageLabels;
  /** The step that waits for decisions, where the run does. */
  readonly pending?: PendingStep;
  /** The outcome of a rehearsal; known once it is over, or waits. */
  readonly rehearsal?: RehearsalReport;
}

/** Why a run is over. */
export interface Finish {
  readonly reason: FinishReason;
  /** The kind of answer that the run waits for. */
  readonly waitingFor?: WaitingFor;
  readonly error?: RunFailure;
  /** The run that took the message instead. */
  readonly addedTo?: string;
  /** The limit or condition that ended the run, if the reason alone does not tell. */
  readonly detail?: string;
  /** The kind of the model's failure, if that ended the run. */
  readonly modelError?: ModelErrorCode;
  /** The error for the log and the rejection only. */
  readonly cause?: unknown;
}

/** A cut that is known to leave a valid transcript. */
export interface AppliedCut extends HistoryCut {
  /** The messages before those from `from` on; the same objects for as long as the cut holds. */
  readonly ahead: readonly Message[];
}

/** A run before its first step. */
export function firstState(toolset: Toolset): LoopState {
  return {
    step: 0,
    messages: [],
    toolset,
    usage: NO_USAGE,
    records: [],
    text: '',
    citations: [],
    corrections: 0,
    emptyAnswers: 0,
  };
}

/**
 * A run of one call before it: the call stands where a model's answer would. `labels` are those of
 * all that its writer has read.
 */
export function callState(
  toolset: Toolset,
  call: ToolCall,
  labels: MessageLabels = READ_EVERYTHING,
): UnmadeCall {
  const answer: StepAnswer = {
    text: '',
    reasoning: '',
    toolCalls: [call],
    finishReason: 'tool_calls',
    usage: NO_USAGE,
    labels,
  };
  return { state: { ...firstState(toolset), step: 1 }, answer, offered: toolset };
}

/** A call that is about to be made, and the state of its run. */
interface UnmadeCall extends Pick<PendingStep, 'answer' | 'offered'> {
  readonly state: LoopState;
}

/**
 * The labels of arguments whose source is not known: they count as written by a model that has read
 * everything.
 */
export const READ_EVERYTHING: MessageLabels = { returns: 'untrusted', reads: 'private' };

/**
 * An answer of the model, labelled where the model was shown more than the transcript tells, such
 * as the tools of strangers.
 */
export interface StepAnswer extends ModelAnswer {
  readonly labels?: MessageLabels;
  /**
   * The digests of images and files without which the model answered, since its provider refused
   * them.
   */
  readonly refusedMedia?: readonly string[];
}

/** One question to one model, and the tools its answer may call. */
export interface PreparedStep {
  readonly step: number;
  readonly model: LanguageModel;
  readonly toolset: Toolset;
  readonly request: ModelRequest;
}

/**
 * A step whose calls are not all made: the answer that made them, and what became of those that are
 * done. It is not in the transcript yet.
 */
export interface PendingStep {
  readonly answer: StepAnswer;
  /** The tools that the model was offered. */
  readonly offered: Toolset;
  /**
   * True once its calls were counted. Otherwise a process ended before it knew what became of them,
   * and they are counted again.
   */
  readonly isPlanned: boolean;
  /** The outcomes of the calls that were begun, in their order; those that wait are pending. */
  readonly outcomes: readonly ToolOutcome[];
  /** Sub-runs of its calls that a process which is gone had begun, as far as they came. */
  readonly checkpoints?: readonly (SubRunCheckpoint & { readonly toolCallId: string })[];
  /** The limit that a call of the step reached. */
  readonly limit?: Pick<Finish, 'reason' | 'detail'>;
}

/** The sub-run that a call of the step has begun: broken off with its process, or waiting. */
export function checkpointIn(
  { checkpoints = [], outcomes }: Pick<PendingStep, 'checkpoints' | 'outcomes'>,
  toolCallId: string,
  index: number,
): SubRunCheckpoint | undefined {
  return (
    checkpoints.find((one) => one.toolCallId === toolCallId) ??
    outcomes.find(({ record }) => record.index === index)?.checkpoint
  );
}

/** Returns the values for which references stand in messages. */
export function hiddenIn(messages: readonly Message[]): readonly HiddenValue[] {
  return messages.flatMap((message) => (message.role === 'tool' ? (message.hidden ?? []) : []));
}

/** An answer as it stands in the transcript. */
export function assistantMessage(answer: StepAnswer): AssistantMessage {
  const { text, reasoning, toolCalls, citations, providerData, refusedMedia, labels } = answer;
  return {
    role: 'assistant',
    ...(labels && { labels }),
    content: text,
    ...(reasoning && { reasoning }),
    ...(toolCalls.length > 0 && { toolCalls }),
    ...(citations && { citations }),
    ...(providerData && { providerData }),
    ...(refusedMedia && { refusedMedia }),
  };
}

/** Returns the kind of answer that a run waits for, where it waits for one. */
export function waitingForIn({ finish }: Pick<LoopState, 'finish'>): Pick<Finish, 'waitingFor'> {
  return finish?.waitingFor ? { waitingFor: finish.waitingFor } : {};
}

/**
 * A model's words are worth what it had read: a store that forgets what that was must not forget
 * this.
 */
export function labelledMessages(
  messages: readonly Message[],
  labels: MessageLabels,
): readonly Message[] {
  return messages.map((message) =>
    message.role === 'assistant' ? { ...message, labels } : message,
  );
}

/**
 * Labels the user's messages if the request says that they are public: later runs of the
 * conversation may say otherwise of their own.
 */
export function asSaid<Said extends Message>(
  messages: readonly Said[],
  { labels }: Pick<LoopRequest, 'labels'>,
): readonly Said[] {
  if (labels?.reads !== 'public') return messages;
  return messages.map((message) =>
    message.role === 'user'
      ? { ...message, labels: { returns: 'trusted', reads: 'public' } }
      : message,
  );
}
