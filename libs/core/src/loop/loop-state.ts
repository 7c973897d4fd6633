import { randomUUID } from 'node:crypto';
import {
  type AssistantMessage,
  type Citation,
  type FinishReason,
  type HiddenValue,
  type JsonValue,
  type LanguageModel,
  type LoopEventBody,
  type LoopResult,
  type Message,
  type MessageLabels,
  type ModelAnswer,
  ModelError,
  type ModelErrorCode,
  type ModelRequest,
  NO_USAGE,
  type RehearsalReport,
  type RunFailure,
  StorageUnavailableError,
  type ToolCall,
  type ToolInvocationRecord,
  type Usage,
  type WaitingFor,
} from '@toolloop/protocol';
import type { Toolset } from '../catalog/toolset.js';
import type { HistoryCut } from '../contracts/history.js';
import type { LoopRequest } from '../contracts/loop-request.js';
import { Interruption } from '../execution/call-failure.js';
import type { SubRunCheckpoint, ToolOutcome } from '../execution/call.js';
import type { Logger } from '../findings/logger.js';
import { answerForReader, REFERENCE_MARK } from '../policy/value-references.js';
import type { StructuredOutput } from './structured-answer.js';
import { toJson } from '../schema/canonical-json.js';

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
export interface UnmadeCall extends Pick<PendingStep, 'answer' | 'offered'> {
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

/** Returns whether a run ends because a store is unavailable. */
export function isUnavailable({ finish }: Pick<LoopState, 'finish'>): boolean {
  return finish?.error?.code === 'storage_unavailable';
}

/** Returns the kind of answer that a run waits for, where it waits for one. */
export function waitingForIn({ finish }: Pick<LoopState, 'finish'>): Pick<Finish, 'waitingFor'> {
  return finish?.waitingFor ? { waitingFor: finish.waitingFor } : {};
}

/** Whom a failure is logged for. */
export interface FailedRun {
  readonly runId: string;
  readonly logger: Logger;
}

const UNAVAILABLE =
  'The storage does not answer for now. Nothing was lost: try again in a little while.';

const MESSAGES = {
  internal: 'The run failed.',
  model_error: 'The model could not answer.',
} as const satisfies Partial<Record<RunFailure['code'], string>>;

/**
 * An error of the application's own code for a run, in words that may be shown: they name the code,
 * and nothing of the run.
 */
export class RunFault extends Error {
  override readonly name = 'RunFault';

  constructor(
    readonly code: 'invalid_step' | 'stop_condition',
    message: string,
    options: { readonly cause?: unknown } = {},
  ) {
    super(message, options);
  }
}

/**
 * The failures of a model that are a limit which was reached: their words are ours, and may be
 * shown.
 */
const TIMEOUTS: ReadonlySet<ModelErrorCode> = new Set<ModelErrorCode>([
  'no_response',
  'no_content',
  'idle',
]);

/** The end of a run whose model stopped without a reason. */
export const INCOMPLETE: Finish = {
  reason: 'error',
  error: { code: 'model_incomplete', message: 'The model ended before its answer was complete.' },
};

/**
 * Returns the end of a run whose model reached a limit of its time, or broke off before it began.
 */
function unansweredFinish(error: ModelError): Finish | undefined {
  const { code: modelError } = error;
  if (modelError === 'incomplete') return { ...INCOMPLETE, modelError, cause: error };
  return TIMEOUTS.has(modelError)
    ? { reason: 'timeout', detail: error.message, modelError, cause: error }
    : undefined;
}

/**
 * Returns the end of a run by an error: interrupted, or failed with a fixed text and a reference
 * under which the log has the cause.
 */
export function finishFor(
  error: unknown,
  code: keyof typeof MESSAGES,
  { runId, logger }: FailedRun,
): Finish {
  if (error instanceof Interruption && error.kind !== 'failed')
    return {
      reason: error.kind,
      ...(error.kind === 'timeout' && { detail: error.message }),
      cause: error,
    };
  const unanswered = error instanceof ModelError ? unansweredFinish(error) : undefined;
  if (unanswered) return unanswered;
  const correlationId = randomUUID();
  logger.error(`Run ${runId} failed (reference ${correlationId}).`, error);
  const finish = failedFinish(error, code);
  return { ...finish, error: { ...finish.error, correlationId } };
}

function failedFinish(
  error: unknown,
  code: keyof typeof MESSAGES,
): Finish & { readonly error: RunFailure } {
  const failed = (failure: RunFailure, cause = error): Finish & { readonly error: RunFailure } => ({
    reason: 'error',
    error: failure,
    cause,
  });
  if (error instanceof RunFault)
    return failed({ code: error.code, message: error.message }, error.cause ?? error);
  if (StorageUnavailableError.in(error))
    return failed({ code: 'storage_unavailable', message: UNAVAILABLE });
  // A run that was interrupted for a failure of ours, such as a critical sink's, is no fault of the
  // model's.
  const told = error instanceof Interruption ? 'internal' : code;
  const finish = failed({ code: told, message: MESSAGES[told] });
  return error instanceof ModelError && told === 'model_error'
    ? { ...finish, modelError: error.code }
    : finish;
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

/**
 * A run's result as the application gets it. `messages` is behind a getter, so that no serializer
 * finds it.
 */
export class FinishedRun<Output> implements LoopResult<Output> {
  readonly text: string;
  readonly citations?: NonNullable<LoopResult['citations']>;
  readonly finishReason: LoopResult['finishReason'];
  readonly waitingFor?: WaitingFor;
  readonly steps: number;
  readonly toolCalls: LoopResult['toolCalls'];
  readonly injectedTools: LoopResult['injectedTools'];
  readonly usage: LoopResult['usage'];
  readonly error?: NonNullable<LoopResult['error']>;
  readonly finishDetail?: string;
  readonly modelError?: ModelErrorCode;
  readonly rehearsal?: RehearsalReport;
  readonly #messages: readonly Message[];
  readonly #modelText: string;
  readonly #answer: StructuredOutput | undefined;
  readonly #read: MessageLabels;
  readonly #addedTo: string | undefined;

  constructor(
    readonly runId: string,
    state: LoopState,
    readonly output?: Output,
  ) {
    this.text = readableText(state);
    this.#modelText = state.text;
    if (state.citations.length > 0) this.citations = state.citations;
    const { reason, waitingFor, addedTo, error, detail, modelError }: Finish = state.finish ?? {
      reason: 'error',
    };
    this.finishReason = reason;
    if (waitingFor) this.waitingFor = waitingFor;
    this.steps = state.step;
    this.toolCalls = recordsOf(state);
    this.injectedTools = state.toolset.injected;
    this.usage = state.usage;
    if (error) this.error = error;
    if (detail !== undefined) this.finishDetail = detail;
    if (modelError) this.modelError = modelError;
    if (state.rehearsal) this.rehearsal = state.rehearsal;
    this.#addedTo = addedTo;
    this.#messages = state.messages;
    this.#answer = state.output;
    this.#read = state.read ?? { returns: 'untrusted', reads: 'private' };
  }

  /** The text for another model, which knows what is hidden by the same references. */
  get modelText(): string {
    return this.#modelText;
  }

  get addedTo(): string | undefined {
    return this.#addedTo;
  }

  /** The answer as JSON for another model, where one was asked for and given. */
  get outputJson(): JsonValue | undefined {
    return this.#answer?.modelJson ?? this.#answer?.json;
  }

  /** The event that tells the end of the run. */
  get end(): LoopEventBody {
    const {
      finishReason,
      waitingFor,
      addedTo,
      text,
      steps,
      usage,
      error,
      finishDetail,
      modelError,
      rehearsal,
    } = this;
    return {
      type: 'run-end',
      finishReason,
      ...(waitingFor && { waitingFor }),
      ...(addedTo !== undefined && { addedTo }),
      text,
      ...(this.#answer && { output: this.#answer.json }),
      steps,
      usage,
      ...(error && { error }),
      ...(finishDetail && { finishDetail }),
      ...(modelError && { modelError }),
      ...(rehearsal && { rehearsal }),
    };
  }

  /** Returns the labels of everything that the run's model has read. */
  get read(): MessageLabels {
    return this.#read;
  }

  get messages(): readonly Message[] {
    return this.#messages;
  }

  toJSON(): JsonValue {
    const {
      runId,
      text,
      citations,
      finishReason,
      waitingFor,
      addedTo,
      steps,
      toolCalls,
      usage,
      error,
      finishDetail,
      modelError,
      rehearsal,
    } = this;
    return toJson({
      runId,
      output: this.#answer?.json,
      text,
      citations,
      finishReason,
      waitingFor,
      addedTo,
      steps,
      toolCalls,
      injectedTools: this.injectedTools.map(({ id }) => id),
      usage,
      error,
      finishDetail,
      modelError,
      rehearsal,
    });
  }
}

/** The text of the last answer, with the values in it for which it has references. */
function readableText({ text, messages, output }: LoopState): string {
  return text.includes(REFERENCE_MARK)
    ? answerForReader(text, hiddenIn(messages), output !== undefined)
    : text;
}

/** Those of a step that waits are no part of the state yet. */
function recordsOf({ records, pending }: LoopState): LoopResult['toolCalls'] {
  return pending ? [...records, ...pending.outcomes.map(({ record }) => record)] : records;
}
