import type { ModelErrorCode } from './errors.js';
import type { ComparedCall, Decision, RehearsedCall } from './decision.js';
import type { JsonObject, JsonValue } from './json.js';
import type { Citation, Message, RecordedAttachment, Usage } from './message.js';
import type {
  ArgumentProblem,
  EntityReference,
  ToolEffect,
  ToolPresentation,
  ToolSpec,
} from './tool-definition.js';

/**
 * The result of a run. A controller may return it: `JSON.stringify` gives the UI projection, and
 * `messages` is not enumerable.
 */
export interface LoopResult<Output = unknown> {
  readonly runId: string;
  /** The validated answer, if the request asked for one and the run finished with `stop`. */
  readonly output?: Output;
  /** The text of the last answer. */
  readonly text: string;
  /** The sources that the model names for that text, if it names any. */
  readonly citations?: readonly Citation[];
  readonly finishReason: FinishReason;
  /**
   * The kind of answer that a run waits for which ended `waiting`: that of its first call that
   * waits.
   */
  readonly waitingFor?: WaitingFor;
  /**
   * The id of the run of the same conversation that took the message instead, where the request
   * said so: it answers.
   */
  readonly addedTo?: string;
  readonly steps: number;
  readonly toolCalls: readonly ToolInvocationRecord[];
  /** Every tool that was injected, in order. */
  readonly injectedTools: readonly ToolSpec[];
  readonly usage: Usage;
  /**
   * The whole transcript in the model's projection; pass it as `messages` to continue. Not
   * enumerable.
   */
  readonly messages: readonly Message[];
  readonly error?: RunFailure;
  /**
   * The limit, quota or stop condition, if the reason alone does not name it, and the calls of
   * `unknownOutcomes` if there is no `error` whose message has them.
   */
  readonly finishDetail?: string;
  /**
   * The ids of the calls of which it is unknown whether they took place, if the run ended before
   * its model could tell: `error` or `finishDetail` says so in words.
   */
  readonly unknownOutcomes?: readonly string[];
  /** The outcome of a run with `rehearse`. */
  readonly rehearsal?: RehearsalReport;
  /**
   * The kind of the model's failure, if one ended the run: as `error` with the code `model_error`
   * or `model_incomplete`, or as `timeout`.
   */
  readonly modelError?: ModelErrorCode;
  toJSON(): JsonValue;
}

/**
 * The reason why a run ended. A run that reached a limit (`max_steps`, `max_calls`, `no_progress`,
 * `timeout`, `budget`) still has its transcript and usage.
 */
export type FinishReason =
  | 'stop'
  | 'length'
  | 'content_filter'
  | 'max_steps'
  | 'max_calls'
  | 'no_progress'
  | 'timeout'
  | 'budget'
  | 'forbidden'
  | 'tool_error'
  | 'waiting'
  | 'aborted'
  | 'error';

/**
 * The kind of answer that a run waits for: a yes or a no to a call or to a rehearsal, the answer to
 * a question, or a result that the client is to give.
 */
export type WaitingFor = 'approval' | 'question' | 'client' | 'rehearsal';

/**
 * The failure of a run, safe to show; the cause is in the log under the correlation id.
 * `cannot_continue` means that this application can no longer continue a stored run, for example
 * because its actor or its loop no longer exists, or because another release stored it in another
 * form; the message says what to do. `storage_unavailable` means that a store failed, or did not
 * answer within some seconds of retries: no call is lost, and an unfinished step is saved as one
 * that waits, if the store accepts it by then.
 */
export interface RunFailure {
  readonly code:
    | 'model_error'
    | 'model_incomplete'
    | 'invalid_output'
    | 'invalid_step'
    | 'stop_condition'
    | 'cannot_continue'
    | 'storage_unavailable'
    | 'internal';
  readonly message: string;
  readonly correlationId?: string;
}

/** The first difference between a rehearsal and the data when it is to be performed. */
export interface RehearsalChange extends Pick<RehearsedCall, 'toolCallId' | 'declaredId'> {
  /**
   * The JSON pointer of the field that is not as it was: in the result of a read, or behind the
   * name of a row that a write changes. Absent where the call cannot be made any more.
   */
  readonly field?: string;
  /**
   * Set where the tool itself is another than the one that was rehearsed: its effect, its labels,
   * its schemas, or what people are shown of it.
   */
  readonly isTool?: true;
}

/** A call of a rehearsal, and what became of it once the rehearsal was approved. */
export interface ReportedCall extends RehearsedCall {
  /**
   * Absent while the rehearsal is not approved. `unknown`: it was begun, and it is unknown whether
   * it took place. `waiting`: it waits for its client, or for a further approval.
   */
  readonly outcome?: 'performed' | 'failed' | 'unknown' | 'waiting' | 'not_made';
}

/**
 * The outcome of a rehearsal: its calls that change something, in their order, and what became of
 * them.
 */
export interface RehearsalReport {
  /** Absent where no one was asked. */
  readonly rehearsalId?: string;
  /**
   * `unasked`: there is nothing to perform, the run did not come to an end, or it asks no one.
   * `waiting`: people have not answered yet, or a call waits. `performed`: every call took place.
   * `incomplete`: a call failed, and those behind it were not made. `changed`: what the rehearsal
   * was about has changed, and nothing was performed. `denied`, `withdrawn` and `expired`: nothing
   * was performed, for want of a yes.
   */
  readonly status:
    | 'unasked'
    | 'waiting'
    | 'performed'
    | 'incomplete'
    | 'changed'
    | 'denied'
    | 'withdrawn'
    | 'expired';
  readonly calls: readonly ReportedCall[];
  /** Set where the status is `changed`. */
  readonly change?: RehearsalChange;
}

/**
 * The code of a failed call, as the model reads it. Of `storage_unavailable` no model reads: it is
 * the failure of a directive that a store kept from being performed.
 */
export type ToolErrorCode =
  | 'unknown_tool'
  | 'tool_gone'
  | 'invalid_json'
  | 'invalid_args'
  | 'tenant_override'
  | 'forbidden'
  | 'policy_denied'
  | 'approval_denied'
  | 'unknown_outcome'
  | 'invalid_output'
  | 'timeout'
  | 'aborted'
  | 'budget_exceeded'
  | 'storage_unavailable'
  | 'execution_failed';

/**
 * The failure of a call, as the model, the ui and the record carry it. The cause is in the log,
 * under `correlationId`.
 */
export interface ToolFailure {
  readonly code: ToolErrorCode;
  /**
   * The message for the model: what happened and what to do. Never an exception's own text unless
   * it was declared safe.
   */
  readonly safeMessage: string;
  readonly problems?: readonly ArgumentProblem[];
  /** `true` if the same call may succeed later. */
  readonly retryable?: boolean;
  readonly correlationId?: string;
}

/**
 * A JSON:API error object (https://jsonapi.org/format/1.1/#error-objects), the form in which a
 * model reads a failure.
 */
export interface JsonApiError {
  readonly status: string;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly source?: { readonly pointer: string };
}

/**
 * The outcome of a tool call. It holds the ui projection of arguments and result, so that returning
 * one from a controller leaks nothing; the model's projection is in the transcript.
 */
export interface ToolInvocationRecord {
  readonly toolCallId: string;
  /** The rendered id the model used. */
  readonly id: string;
  /** Absent when no tool of that id was in the toolset. */
  readonly declaredId?: string;
  readonly entity?: EntityReference;
  readonly effect?: ToolEffect;
  readonly step: number;
  /** The position among the calls of the step, from 0. */
  readonly index: number;
  /** Absent when the arguments could not be parsed. */
  readonly args?: JsonObject;
  /** The outcome. `waiting`: the call needs a person's approval and was not made. */
  readonly status: 'succeeded' | 'failed' | 'denied' | 'waiting';
  readonly result?: JsonValue;
  /**
   * The directive that performs the call's effect later. Absent where the call itself had the
   * effect.
   */
  readonly directiveId?: string;
  /**
   * The pending request of an equal call of the same conversation. Set if this call was answered
   * with it instead of being made.
   */
  readonly pendingId?: string;
  /**
   * The id of an equal call of an answer that has given way to this run's. Set if this call was
   * answered with what that one did instead of being made.
   */
  readonly madeBefore?: string;
  /** Set in a rehearsal: the call was made and rolled back, or it was not made. */
  readonly rehearsal?: 'rehearsed' | 'previewed';
  /** Images and files of the result, which the model is shown too. */
  readonly attachments?: readonly RecordedAttachment[];
  readonly error?: ToolFailure;
  readonly decision?: Decision;
  /** The number of the attempt, from 1; there are several under `onToolError: 'retry'` only. */
  readonly attempt: number;
  readonly startedAt: Date;
  readonly endedAt: Date;
  readonly durationMs: number;
  /** The bytes of the model's projection before it was cut to its budget. */
  readonly resultBytes?: number;
  readonly truncated?: boolean;
  /** The run that the call started. Set for the call of a sub-run tool. */
  readonly subRun?: SubRunRecord;
}

/** The run behind the call of a sub-run tool. */
export interface SubRunRecord {
  readonly runId: string;
  readonly finishReason: FinishReason;
  readonly steps: number;
  readonly usage: Usage;
  /**
   * The calls of the sub-run, in the ui projection. Absent in events, where each call has events of
   * its own.
   */
  readonly toolCalls?: readonly ToolInvocationRecord[];
}

/** A run as another model, other policies or both would have it. Nothing of it is performed. */
export interface RehearsedRun {
  /** The recorded run. */
  readonly runId: string;
  /** The run in which a model was asked again; absent where calls were only decided again. */
  readonly rehearsedBy?: string;
  readonly model?: string;
  readonly policy?: string;
  /** False while the rehearsal has not ended: then these are its calls so far. */
  readonly isOver: boolean;
  /**
   * The end of the run in which a model was asked again, once it is over. Anything but `stop` says
   * that these calls are not all that the model would have made.
   */
  readonly finishReason?: FinishReason;
  readonly calls: readonly ComparedCall[];
}

/** A call with its outcome as people see it: JSON, and nothing of the model's projection. */
export interface ShownCall extends Pick<
  ToolInvocationRecord,
  | 'toolCallId'
  | 'id'
  | 'declaredId'
  | 'entity'
  | 'effect'
  | 'args'
  | 'status'
  | 'result'
  | 'directiveId'
  | 'pendingId'
  | 'madeBefore'
  | 'attachments'
  | 'error'
  | 'decision'
  | 'durationMs'
> {
  /** The presentation of the call and its result, if the tool declares one. */
  readonly presentation?: ToolPresentation;
  /** The run that the call started, if it started one. */
  readonly subRunId?: string;
  /** The run that made the call. Set in a conversation that is kept. */
  readonly runId?: string;
}

/** Returns the part of a record that people see of a call that is over. */
export function shownCall(
  record: ToolInvocationRecord,
  presentation?: ToolPresentation,
): ShownCall {
  const {
    step: _step,
    index: _index,
    attempt: _attempt,
    startedAt: _startedAt,
    endedAt: _endedAt,
    ...rest
  } = record;
  const {
    resultBytes: _resultBytes,
    truncated: _truncated,
    rehearsal: _rehearsal,
    subRun,
    ...shown
  } = rest;
  return {
    ...shown,
    ...(presentation && { presentation }),
    ...(subRun && { subRunId: subRun.runId }),
  };
}
