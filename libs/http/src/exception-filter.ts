import { STATUS_CODES } from 'node:http';
import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  HttpException,
  Injectable,
} from '@nestjs/common';
import { Logger, standingRecords } from '@toolloop/core/internal';
import { HttpAdapterHost } from '@nestjs/core';
import {
  InvalidRequestError,
  ModelError,
  OperatorError,
  PendingError,
  RunElsewhereError,
  RunError,
} from '@toolloop/core';
import { AuditError } from '@toolloop/core/audit';
import { DirectiveError } from '@toolloop/core/directives';
import { PolicyError } from '@toolloop/core/runs';
import { RunLostError } from '@toolloop/core/stores';
import {
  type LoopEvent,
  type LoopResult,
  type RunFailure,
  StorageUnavailableError,
  type ToolInvocationRecord,
} from '@toolloop/protocol';
import type { ErrorBody } from '@toolloop/protocol/routes';

/**
 * Says an error as HTTP does: a mistake of the caller with its message, a failure of the server
 * without its cause.
 */
export function toHttpError(error: unknown): HttpError {
  return ofToolLoop(error) ?? ofNest(error) ?? ofBodyParser(error) ?? INTERNAL;
}

/** An error as HTTP says it. */
interface HttpError {
  readonly status: number;
  readonly body: ErrorBody;
  /** The seconds after which another attempt makes sense. */
  readonly retryAfter?: number;
}

const STATUS_OF_PENDING: Readonly<Record<PendingError['code'], number>> = {
  not_found: 404,
  not_permitted: 403,
  already_answered: 409,
  expired: 409,
  withdrawn: 409,
  held: 409,
  invalid_answer: 400,
};

const STATUS_OF_DIRECTIVE: Readonly<Record<DirectiveError['code'], number>> = {
  not_found: 404,
  not_permitted: 403,
  not_possible: 409,
  outcome_needed: 400,
};

const STATUS_OF_POLICY: Readonly<Record<PolicyError['code'], number>> = {
  not_found: 404,
  conflict: 409,
  invalid: 400,
};

/**
 * A run that does not wait, or not for this caller, cannot be found; the caller can mend most other
 * requests.
 */
const STATUS_OF_REQUEST: Readonly<Record<InvalidRequestError['code'], number>> = {
  invalid_request: 400,
  invalid_messages: 400,
  unknown_tool: 400,
  unknown_model: 400,
  unknown_actor: 400,
  unreadable_run: 409,
  unknown_run: 404,
  unknown_session: 404,
  forbidden: 403,
  too_many_sessions: 429,
};

const INTERNAL: HttpError = {
  status: 500,
  body: { code: 'internal', message: 'Something went wrong on the server.' },
};
const UNAVAILABLE: HttpError = {
  status: 503,
  body: {
    code: 'storage_unavailable',
    message: 'The storage does not answer for now. Try again in a moment.',
  },
};
const REFUSED_BY_STORAGE: HttpError = {
  status: 503,
  body: {
    code: 'storage_unavailable',
    message:
      'The storage failed, and as far as is known that does not pass by itself: an operator has to look at it.',
  },
};

function ofToolLoop(error: unknown): HttpError | undefined {
  if (error instanceof InvalidRequestError) return told(STATUS_OF_REQUEST[error.code], error);
  if (error instanceof PendingError) return told(STATUS_OF_PENDING[error.code], error);
  if (error instanceof DirectiveError) return told(STATUS_OF_DIRECTIVE[error.code], error);
  if (error instanceof PolicyError) return told(STATUS_OF_POLICY[error.code], error);
  if (error instanceof OperatorError)
    return told(403, { code: error.code, message: 'Only operators may do this.' });
  if (error instanceof RunElsewhereError)
    return { status: 409, body: { ...ELSEWHERE, runId: error.runId } };
  if (error instanceof RunLostError) return { status: 409, body: ELSEWHERE };
  if (error instanceof ModelError)
    return { status: 502, body: { code: 'model_error', message: 'The model did not answer.' } };
  const ended = findRunError(error);
  return ended ? ofRun(ended) : ofStorage(error);
}

/** Finds the end of a run that an error is or that caused it: it knows which calls were made. */
function findRunError(error: unknown): RunError | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause instanceof RunError) return cause;
  return undefined;
}

const ELSEWHERE: ErrorBody = {
  code: 'run_elsewhere',
  message: 'Another process has the run. Ask for it by its id.',
};

/** An audit that cannot be written refuses what it would have to record. */
function ofStorage(error: unknown): HttpError | undefined {
  const failure = StorageUnavailableError.in(error);
  if (!failure) return undefined;
  if (failure instanceof AuditError) return { ...UNRECORDED, ...retryOf(failure) };
  return { ...(failure.mayPass ? UNAVAILABLE : REFUSED_BY_STORAGE), ...retryOf(failure) };
}

const UNRECORDED: HttpError = {
  status: 503,
  body: {
    code: 'audit_unavailable',
    message:
      'This cannot be recorded, so it was not done. As far as is known that does not pass by itself: an operator has to look at the audit.',
  },
};

/**
 * The one rule for `Retry-After`, by which clients send again by themselves: the storage failed and
 * that passes, and no call had an effect or may have had one.
 */
function retryOf(
  failure: unknown,
  calls: readonly ToolInvocationRecord[] = [],
): Pick<HttpError, 'retryAfter'> {
  const passes = StorageUnavailableError.in(failure)?.mayPass !== false;
  return passes && standingRecords(calls).length === 0 ? { retryAfter: 1 } : {};
}

function told(status: number, { code, message }: ErrorBody): HttpError {
  return { status, body: { code, message } };
}

/**
 * A run that ended badly: 502 when the model failed, 503 when it was stopped, else 500. The message
 * is safe, see `RunFailure`. A client is not told to send again by itself what would do once more
 * what was done.
 */
function ofRun(failure: RunError): HttpError {
  const { result } = failure;
  const isStorage = result.error?.code === 'storage_unavailable';
  return { ...toldEnd(result), ...(isStorage && retryOf(failure, result.toolCalls)) };
}

/** The end of a run without an answer. */
type Unanswered = Pick<LoopResult, 'runId' | 'finishReason' | 'error' | 'finishDetail'>;

function toldEnd({ runId, finishReason, error, finishDetail }: Unanswered): HttpError {
  if (!error && finishReason !== 'error') {
    const message = finishDetail ?? 'The run was stopped.';
    return { status: 503, body: { code: finishReason, message, runId } };
  }
  const { code = 'internal', message = INTERNAL.body.message, correlationId } = error ?? {};
  const { [code]: status } = STATUS_OF_RUN;
  return { status, body: { code, message, runId, ...(correlationId && { correlationId }) } };
}

/**
 * Throws for the last event of a run that a protocol can answer with nothing but an error: it
 * failed or was stopped, or it is unknown whether calls of it took place.
 */
export function assertAnswered(event: LoopEvent | undefined): void {
  if (event?.type !== 'run-end') return;
  const { finishReason, unknownOutcomes } = event;
  if (finishReason !== 'error' && finishReason !== 'aborted' && !unknownOutcomes) return;
  const { status, body } = toldEnd(event);
  throw new HttpException(body, status);
}

const STATUS_OF_RUN: Readonly<Record<RunFailure['code'], number>> = {
  model_error: 502,
  model_incomplete: 502,
  invalid_output: 502, // the model did not keep to the form
  storage_unavailable: 503,
  invalid_step: 500,
  stop_condition: 500,
  cannot_continue: 500,
  internal: 500,
};

function ofNest(error: unknown): HttpError | undefined {
  if (!(error instanceof HttpException)) return undefined;
  const status = error.getStatus();
  const { retryAfter, ...body } = ofResponse(status, error.getResponse());
  return { status, body, ...(retryAfter !== undefined && { retryAfter }) };
}

/**
 * Nest's exceptions carry a text, or an object whose `message` is a text or, from the validation
 * pipe, a list of them.
 */
function ofResponse(
  status: number,
  response: string | object,
): ErrorBody & Pick<HttpError, 'retryAfter'> {
  const fallback = { code: codeOf(status), message: STATUS_CODES[status] ?? 'Error' };
  if (typeof response === 'string') return { ...fallback, message: response };
  const code =
    'code' in response && typeof response.code === 'string' ? response.code : fallback.code;
  const message = 'message' in response ? response.message : undefined;
  if (Array.isArray(message))
    return { code, message: message.map(String).join('; '), details: message.map(String) };
  const later = 'retryAfter' in response &&
    typeof response.retryAfter === 'number' && { retryAfter: response.retryAfter };
  return { code, message: typeof message === 'string' ? message : fallback.message, ...later };
}

/**
 * The parsers of bodies throw errors of their own, with a status below 500 for what the caller did:
 * Express as `status`, Fastify as `statusCode`.
 */
function ofBodyParser(error: unknown): HttpError | undefined {
  if (!(error instanceof Error)) return undefined;
  const status = ('status' in error && error.status) || ('statusCode' in error && error.statusCode);
  if (typeof status !== 'number' || status < 400 || status >= 500) return undefined;
  return {
    status,
    body: {
      code: codeOf(status),
      message: status === 413 ? 'The body is too large.' : 'The body cannot be read.',
    },
  };
}

/** `413` → `payload_too_large`. */
function codeOf(status: number): string {
  return (STATUS_CODES[status] ?? 'error').toLowerCase().replaceAll(/[^a-z]+/g, '_');
}

/**
 * Answers every error of a route as `{ code, message }`, with the status that it stands for; the
 * cause of a failure of the server goes to the log, never to the caller. The routes of this module
 * have it. For controllers of your own, and for what Nest answers itself, make it the filter of the
 * application.
 *
 * @example
 * providers: [{ provide: APP_FILTER, useClass: ToolLoopExceptionFilter }]
 */
@Catch()
@Injectable()
export class ToolLoopExceptionFilter implements ExceptionFilter {
  private readonly logger = new Logger(ToolLoopExceptionFilter.name);

  constructor(private readonly adapters: HttpAdapterHost) {}

  /** @throws The error itself where it is one of a tool call. */
  catch(error: unknown, host: ArgumentsHost): void {
    // A global filter is asked about tool calls too; the loop answers those errors.
    if (host.getType() !== 'http') throw error;
    const { status, body, retryAfter } = toHttpError(error);
    if (status >= 500) this.logger.error(error);
    const { httpAdapter } = this.adapters;
    const response: unknown = host.switchToHttp().getResponse();
    if (httpAdapter.isHeadersSent(response)) return;
    if (status === 401) httpAdapter.setHeader(response, 'www-authenticate', 'Bearer');
    if (status === 405) httpAdapter.setHeader(response, 'allow', 'GET');
    if (retryAfter !== undefined)
      httpAdapter.setHeader(response, 'retry-after', String(retryAfter));
    httpAdapter.reply(response, status === 204 ? undefined : body, status);
  }
}
