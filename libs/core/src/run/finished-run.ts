import type {
  JsonValue,
  LoopEventBody,
  LoopResult,
  Message,
  MessageLabels,
  ModelErrorCode,
  RehearsalReport,
  RunFailure,
  WaitingFor,
} from '@toolloop/protocol';
import { type Finish, hiddenIn, type LoopState } from '../loop/loop-state.js';
import type { StructuredOutput } from '../plugins/structured-output/structured-answer.js';
import { REFERENCE_MARK, answerForReader } from '../plugins/values/value-references.js';
import { toJson } from '../schema/canonical-json.js';
import { tellEnd } from './told-end.js';

/**
 * The result of a run that has ended or waits, as the application gets it, and the event that tells
 * its end. `messages` is behind a getter, so that no serializer finds it.
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
  readonly error?: RunFailure;
  readonly finishDetail?: string;
  readonly unknownOutcomes?: readonly string[];
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
    const finish: Finish = state.finish ?? { reason: 'error' };
    const { reason, waitingFor, addedTo, modelError } = finish;
    this.finishReason = reason;
    if (waitingFor) this.waitingFor = waitingFor;
    this.steps = state.step;
    this.toolCalls = recordsOf(state);
    this.injectedTools = state.toolset.injected;
    this.usage = state.usage;
    const { error, finishDetail, unknownOutcomes } = tellEnd(finish, {
      runId,
      records: this.toolCalls,
    });
    if (error) this.error = error;
    if (finishDetail !== undefined) this.finishDetail = finishDetail;
    if (unknownOutcomes) this.unknownOutcomes = unknownOutcomes;
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
      unknownOutcomes,
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
      ...(unknownOutcomes && { unknownOutcomes }),
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
      unknownOutcomes,
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
      unknownOutcomes,
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

/** The records of a step that waits are not among those of the run yet. */
function recordsOf({ records, pending }: LoopState): LoopResult['toolCalls'] {
  return pending ? [...records, ...pending.outcomes.map(({ record }) => record)] : records;
}
