import type { Decision } from './decision.js';
import type { JsonObject, JsonValue } from './json.js';
import type { Citation, Message, RecordedAttachment, Usage } from './message.js';
import type { ArgumentProblem, EntityReference, ToolEffect, ToolSpec } from './tool-definition.js';

/**
 * Why a run ended. A run that reached a limit (`max_steps`, `max_calls`, `no_progress`, `timeout`, `budget`) still has its transcript and usage: nothing is lost.
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
 * What went wrong with a run, safe to show; the cause is in the log under the correlation id. `cannot_continue` means that this application can no longer continue a
 * stored run, for example because its actor or its loop no longer exists, or because another release stored it in
 * another form; the message says what to do. `storage_unavailable` means that a store did not answer, and was asked again for some seconds: no call was lost, and a step
 * that was not over is kept as one that waits, where a store takes it by then.
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

/**
 * The result of a run. A controller may return it: `JSON.stringify` gives the UI projection, and `messages` is not enumerable.
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
  readonly steps: number;
  readonly toolCalls: readonly ToolInvocationRecord[];
  /** Every tool that was injected, in order. */
  readonly injectedTools: readonly ToolSpec[];
  readonly usage: Usage;
  /** The whole transcript in the model's projection; pass it as `messages` to continue. Not enumerable. */
  readonly messages: readonly Message[];
  readonly error?: RunFailure;
  /** A sentence that says which limit, quota or stop condition it was, if the reason alone does not. */
  readonly finishDetail?: string;
  toJSON(): JsonValue;
}

/** What can become of a call besides success, in the words the model reads. */
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
  | 'execution_failed';

/** A failure as the model, the ui and the record carry it. The cause is in the log, under `correlationId`. */
export interface ToolFailure {
  readonly code: ToolErrorCode;
  /** Written for the model: what happened and what to do. Never an exception's own text unless it was declared safe. */
  readonly safeMessage: string;
  readonly problems?: readonly ArgumentProblem[];
  /** Whether the same call may succeed later. */
  readonly retryable?: boolean;
  readonly correlationId?: string;
}

/** JSON:API error object (https://jsonapi.org/format/1.1/#error-objects), the form in which a model reads a failure. */
export interface JsonApiError {
  readonly status: string;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly source?: { readonly pointer: string };
}

/**
 * What became of a tool call. It holds the ui projection of arguments and result, so that returning one from a controller leaks nothing; the
 * model's projection is in the transcript.
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
  /** Position among the calls of its step, from 0. */
  readonly index: number;
  /** Absent when the arguments could not be parsed. */
  readonly args?: JsonObject;
  /** `waiting`: for a person's yes; the call was not made. */
  readonly status: 'succeeded' | 'failed' | 'denied' | 'waiting';
  readonly result?: JsonValue;
  /** Set where the call asked for its effect, which happens later. */
  readonly directiveId?: string;
  /** Images and files of the result, which the model is shown too. */
  readonly attachments?: readonly RecordedAttachment[];
  readonly error?: ToolFailure;
  readonly decision?: Decision;
  /** Which attempt this became of, from 1; there are several under `onToolError: 'retry'` only. */
  readonly attempt: number;
  readonly startedAt: Date;
  readonly endedAt: Date;
  readonly durationMs: number;
  /** Bytes of the model's projection before it was cut to its budget. */
  readonly resultBytes?: number;
  readonly truncated?: boolean;
  /** Set where the call was a run of its own. */
  readonly subRun?: SubRunRecord;
}

/** What the call of a sub-run tool was, beside its result. */
export interface SubRunRecord {
  readonly runId: string;
  readonly finishReason: FinishReason;
  readonly steps: number;
  readonly usage: Usage;
  /** In the ui projection, like every record. Absent in events: each was told by one of its own. */
  readonly toolCalls?: readonly ToolInvocationRecord[];
}
