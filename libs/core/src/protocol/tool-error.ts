import type { ArgumentProblem } from './tool.js';

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

/** What a `ToolError` says beside its message. */
export interface ToolErrorOptions {
  /** Whether the same call may succeed later. @default true where `retryAfterMs` is given, else false */
  readonly retryable?: boolean;
  /** Milliseconds to wait before another attempt; more than 5,000 are not waited. @default exponential back-off with jitter */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/**
 * Thrown by a tool that wants to tell the model something: the message reaches the model as it stands, so write it for the model.
 */
export class ToolError extends Error {
  override readonly name = 'ToolError';
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(
    readonly safeMessage: string,
    { retryAfterMs, retryable = retryAfterMs !== undefined, cause }: ToolErrorOptions = {},
  ) {
    super(safeMessage, { cause });
    this.retryable = retryable;
    this.retryAfterMs = retryAfterMs;
  }
}
