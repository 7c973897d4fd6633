import { randomUUID } from 'node:crypto';
import { HttpException } from '@nestjs/common';
import type { ArgumentProblem } from '../protocol/tool.js';
import { ToolError, type JsonApiError, type ToolErrorCode, type ToolFailure } from '../protocol/tool-error.js';
import { Interruption } from './interruption.js';

/**
 * How far a tool's method has come in a call. It is the only word on the effect of a tool that changes things: not called, the effect did not take place; in flight,
 * it is unknown; answered, it took place; and what the method threw speaks for itself.
 */
export type MethodState = 'not_called' | 'in_flight' | 'answered' | 'threw';

/** Thrown by a stage of the pipeline; the runner turns it into the call's result. */
export class CallFailure extends Error {
  override readonly name = 'CallFailure';
  /** Set where the call had passed the journal, of a tool that changes things. */
  readonly method: MethodState | undefined;

  constructor(
    readonly failure: ToolFailure,
    { cause, method }: { readonly cause?: unknown; readonly method?: MethodState | undefined } = {},
  ) {
    super(failure.safeMessage, cause === undefined ? {} : { cause });
    this.method = method;
  }

  static of(code: ToolErrorCode, safeMessage: string, problems?: readonly ArgumentProblem[]): CallFailure {
    return new CallFailure({ code, safeMessage, ...(problems && { problems }) });
  }
}

/** What the model is told of an exception: a tool's own words where it chose them, else a fixed text and an id that is in the log too. */
export function failureOf(error: unknown): ToolFailure {
  if (error instanceof CallFailure) return error.failure;
  if (error instanceof Interruption) return interruptionFailure(error);
  if (error instanceof ToolError)
    return { code: 'execution_failed', safeMessage: shortened(error.safeMessage), retryable: error.retryable };
  if (error instanceof HttpException) return httpFailure(error);
  return unexplained();
}

/** A failure of which the model learns nothing but where to look it up. */
export function unexplained(): ToolFailure {
  return {
    code: 'execution_failed',
    safeMessage: 'The tool failed unexpectedly. Do not repeat the call with the same arguments.',
    correlationId: randomUUID(),
  };
}

/** Throws when the signal is aborted already: what has not begun does not begin. */
export function refuseWhenAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new CallFailure(interruptionFailure(Interruption.from(signal)), { method: 'not_called' });
}

/** What was thrown before the method was called: the effect did not take place. */
export function notCalled(error: unknown): CallFailure {
  return new CallFailure(failureOf(error), { cause: causeOf(error), method: 'not_called' });
}

/** What was thrown after the method had answered, whoever threw it: the effect took place, and only the answer is missing. */
export function answerLost(error: unknown): CallFailure {
  return new CallFailure({ code: 'invalid_output', safeMessage: LOST }, { cause: causeOf(error), method: 'answered' });
}

const LOST = 'The tool ran, but its result cannot be shown. Its effect took place: do not repeat the call.';

/** What a failure of the pipeline was made from; any other error itself. */
export function causeOf(error: unknown): unknown {
  return error instanceof CallFailure ? error.cause : error;
}

/** Of a call that had not begun, or that only reads. */
export function interruptionFailure({ kind, message }: Interruption): ToolFailure {
  return { code: kind === 'timeout' ? 'timeout' : 'aborted', safeMessage: message };
}

/** A text of an exception is as long as whoever threw it likes, and the model reads all of it. */
const MOST_CHARACTERS = 2_000;

function shortened(text: string): string {
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
}

/** A Nest exception's message is shown for 4xx only: a 5xx may speak of the inside. */
function httpFailure(error: HttpException): ToolFailure {
  const status = error.getStatus();
  if (status === 401 || status === 403) return { code: 'forbidden', safeMessage: shortened(error.message) };
  if (status >= 400 && status < 500) return { code: 'execution_failed', safeMessage: shortened(error.message) };
  return { code: 'execution_failed', safeMessage: 'The tool failed unexpectedly.', correlationId: randomUUID() };
}

const TITLES: Record<ToolErrorCode, string> = {
  unknown_tool: 'Unknown tool',
  tool_gone: 'Tool no longer available',
  invalid_json: 'Arguments are not JSON',
  invalid_args: 'Invalid arguments',
  tenant_override: 'Reserved argument',
  forbidden: 'Forbidden',
  policy_denied: 'Unknown tool',
  approval_denied: 'Approval denied',
  unknown_outcome: 'Outcome unknown',
  invalid_output: 'Invalid result',
  timeout: 'Timed out',
  aborted: 'Aborted',
  budget_exceeded: 'Limit reached',
  execution_failed: 'Tool failed',
};

const FORBIDDEN = new Set<ToolErrorCode>(['forbidden', 'approval_denied']);
const INVALID = new Set<ToolErrorCode>(['unknown_tool', 'policy_denied', 'tool_gone', 'invalid_json', 'invalid_args', 'tenant_override']);

/** A failure as the model reads it, in JSON:API form. A tool that policy denies reads like one that does not exist. */
export function toJsonApi(failure: ToolFailure, shownAs: ToolErrorCode = failure.code): { readonly errors: readonly JsonApiError[] } {
  const status = FORBIDDEN.has(shownAs) ? '403' : INVALID.has(shownAs) ? '400' : '500';
  const base = { status, code: shownAs, title: TITLES[shownAs] };
  if (!failure.problems?.length) return { errors: [{ ...base, detail: withCorrelation(failure) }] };
  return { errors: failure.problems.map(({ pointer, message }) => ({ ...base, detail: message, source: { pointer } })) };
}

function withCorrelation({ safeMessage, correlationId }: ToolFailure): string {
  return correlationId === undefined ? safeMessage : `${safeMessage} (Reference ${correlationId})`;
}
