import { HttpException } from '@nestjs/common';
import { ToolError } from '@toolloop/protocol';
import { CallFailure } from './call-failure.js';
import { Interruption } from '../contracts/interruption.js';

/**
 * Milliseconds to wait after a failed attempt, from 1: as long as the error asks for, else any time
 * up to 200 ms, 400 ms and so on, so that calls that failed together do not come back together; 5 s
 * at most. Undefined where another attempt would fail as well.
 */
export function retryDelay(error: unknown, attempt: number): number | undefined {
  const cause = rootCauseOf(error);
  if (cause === undefined) return undefined;
  const asked = askedFor(cause.thrown);
  return asked === undefined
    ? Math.random() * atMost(FIRST_MS * 2 ** (attempt - 1))
    : atMost(asked);
}

const FIRST_MS = 200;
const LONGEST_MS = 5_000;

/**
 * Milliseconds that the error asks to be waited for, 0 where it says nothing. Undefined where
 * another attempt would fail as well.
 */
export function askedWait(error: unknown): number | undefined {
  const cause = rootCauseOf(error);
  return cause && (askedFor(cause.thrown) ?? 0);
}

function atMost(ms: number): number {
  return Math.min(ms, LONGEST_MS);
}

/** Returns the exception behind a failure that may pass. */
function rootCauseOf(error: unknown): { readonly thrown: unknown } | undefined {
  if (!(error instanceof CallFailure)) return isTransient(error) ? { thrown: error } : undefined;
  const { code } = error.failure;
  if (code === 'timeout' || code === 'unknown_outcome') return { thrown: undefined };
  // An exception filter worded it; what it says is no more or less likely to pass.
  return code === 'execution_failed' && isTransient(error.cause)
    ? { thrown: error.cause }
    : undefined;
}

/**
 * Returns whether a failure may pass. An unknown exception says nothing of its cause, and most of
 * them are a network's.
 */
function isTransient(thrown: unknown): boolean {
  if (thrown instanceof Interruption) return false;
  if (thrown instanceof ToolError) return thrown.retryable;
  if (!(thrown instanceof HttpException)) return true;
  const status = thrown.getStatus();
  return status === 408 || status === 429 || status >= 500;
}

function askedFor(thrown: unknown): number | undefined {
  const ms =
    thrown instanceof ToolError
      ? thrown.retryAfterMs
      : thrown instanceof HttpException
        ? retryAfterOf(thrown)
        : undefined;
  return ms !== undefined && ms >= 0 ? ms : undefined;
}

/** In the body of a Nest exception, as the header would have it: seconds, or a date. */
function retryAfterOf(exception: HttpException): number | undefined {
  const status = exception.getStatus();
  const body = exception.getResponse();
  if ((status !== 429 && status !== 503) || typeof body !== 'object') return undefined;
  const fields = new Map(
    Object.entries(body).map(([name, value]: [string, unknown]) => [name.toLowerCase(), value]),
  );
  const value = fields.get('retry-after') ?? fields.get('retryafter');
  if (typeof value !== 'number' && typeof value !== 'string') return undefined;
  const seconds = Number(value);
  const ms = Number.isNaN(seconds) ? Date.parse(String(value)) - Date.now() : seconds * 1000;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
