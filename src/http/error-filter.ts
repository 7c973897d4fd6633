import { STATUS_CODES } from 'node:http';
import { Catch, HttpException, Logger, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { PendingError, InvalidRequestError, OperatorError, RunError } from '@toolloop/core';
import { DirectiveError } from '@toolloop/core/directives';
import { PolicyError } from '@toolloop/core/runs';
import type { Response } from 'express';

/** The part of an error that a caller may know. */
interface ErrorBody {
  readonly code: string;
  readonly message: string;
  readonly details?: readonly string[];
  readonly runId?: string;
  readonly correlationId?: string;
}

interface ErrorAnswer {
  readonly status: number;
  readonly body: ErrorBody;
}

const STATUS_OF_APPROVAL: Readonly<Record<PendingError['code'], number>> = {
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

const STATUS_OF_POLICY: Readonly<Record<PolicyError['code'], number>> = { not_found: 404, conflict: 409, invalid: 400 };

/** A run that does not wait, or not for this user, cannot be found; the caller can mend most other requests. */
const STATUS_OF_REQUEST: Readonly<Partial<Record<InvalidRequestError['code'], number>>> = {
  unknown_run: 404,
  unknown_session: 404,
  forbidden: 403,
  too_many_sessions: 429,
};

const INTERNAL: ErrorAnswer = { status: 500, body: { code: 'internal', message: 'Something went wrong on the server.' } };

/** Turns an error into an answer, which tells a mistake of the caller and hides a failure of the server. */
function toErrorAnswer(error: unknown): ErrorAnswer {
  if (error instanceof InvalidRequestError)
    return { status: STATUS_OF_REQUEST[error.code] ?? 400, body: { code: error.code, message: error.message } };
  if (error instanceof PendingError) return { status: STATUS_OF_APPROVAL[error.code], body: { code: error.code, message: error.message } };
  if (error instanceof DirectiveError)
    return { status: STATUS_OF_DIRECTIVE[error.code], body: { code: error.code, message: error.message } };
  if (error instanceof PolicyError) return { status: STATUS_OF_POLICY[error.code], body: { code: error.code, message: error.message } };
  if (error instanceof OperatorError) return { status: 403, body: { code: error.code, message: 'Only operators may do this.' } };
  if (error instanceof RunError) return ofRun(error);
  if (error instanceof HttpException) return { status: error.getStatus(), body: ofResponse(error.getStatus(), error.getResponse()) };
  return ofBodyParser(error) ?? INTERNAL;
}

/** A run that ended badly: 502 when the model failed, 503 when it was stopped, else 500. The message is safe, see `RunFailure`. */
function ofRun({ result }: RunError): ErrorAnswer {
  const { runId, error } = result;
  if (result.finishReason === 'aborted') return { status: 503, body: { code: 'aborted', message: 'The run was stopped.', runId } };
  const status = error?.code === 'model_error' || error?.code === 'model_incomplete' ? 502 : 500;
  const { code = INTERNAL.body.code, message = INTERNAL.body.message, correlationId } = error ?? {};
  return { status, body: { code, message, runId, ...(correlationId && { correlationId }) } };
}

/** Nest's exceptions carry a text, or an object whose `message` is a text or, from the validation pipe, a list of them. */
function ofResponse(status: number, response: string | object): ErrorBody {
  const fallback = { code: codeOf(status), message: STATUS_CODES[status] ?? 'Error' };
  if (typeof response === 'string') return { ...fallback, message: response };
  const code = 'code' in response && typeof response.code === 'string' ? response.code : fallback.code;
  const message = 'message' in response ? response.message : undefined;
  if (Array.isArray(message)) return { code, message: message.map(String).join('; '), details: message.map(String) };
  return { code, message: typeof message === 'string' ? message : fallback.message };
}

/** Express's body parser throws errors of its own, with a status below 500 for what the caller did. */
function ofBodyParser(error: unknown): ErrorAnswer | undefined {
  if (!(error instanceof Error) || !('status' in error) || typeof error.status !== 'number') return undefined;
  const { status } = error;
  if (status < 400 || status >= 500) return undefined;
  return {
    status,
    body: { code: codeOf(status), message: status === 413 ? 'The body is larger than 256 KB.' : 'The body cannot be read.' },
  };
}

/** `413` → `payload_too_large`. */
function codeOf(status: number): string {
  return (STATUS_CODES[status] ?? 'error').toLowerCase().replaceAll(/[^a-z]+/g, '_');
}

/** Answers every error of every route as `{ code, message }`. The cause of a failure of the server goes to the log, never to the caller. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  private readonly logger = new Logger(ErrorFilter.name);

  catch(error: unknown, host: ArgumentsHost): void {
    // A global filter is asked about tool calls too; the loop answers those errors.
    if (host.getType() !== 'http') throw error;
    const { status, body } = toErrorAnswer(error);
    if (status >= 500) this.logger.error(error);
    const response = host.switchToHttp().getResponse<Response>();
    if (response.headersSent) return;
    if (status === 401) response.setHeader('www-authenticate', 'Bearer');
    response.status(status).json(body);
  }
}
