import { ModelError } from '@toolloop/core';
import { APIConnectionError, APIConnectionTimeoutError, APIError } from 'openai';
import { cut, isRetryable, isWireObject, parseWireObject, unreachable } from '@toolloop/wire';

/** Kinds of error that pass, as providers name them where they give no status. */
const TRANSIENT = new Set([
  'server_error',
  'internal_server_error',
  'api_error',
  'overloaded_error',
  'rate_limit_error',
  'rate_limit_exceeded',
  'timeout',
]);

/** The `error` of a chunk or of a JSON body, or the payload of an `event: error`. */
export function fromProviderError(error: unknown): ModelError {
  const fields = isWireObject(error) ? error : { message: error };
  const status = toStatus(fields.status) ?? toStatus(fields.status_code) ?? toStatus(fields.code);
  const isTransient = TRANSIENT.has(String(fields.type)) || TRANSIENT.has(String(fields.code));
  const message = typeof fields.message === 'string' ? fields.message : (JSON.stringify(error) ?? 'no message');
  return new ModelError(`The provider reported an error: ${cut(message)}`, {
    status,
    retryable: status === undefined ? isTransient || undefined : isRetryable(status),
  });
}

export function fromErrorPayload(payload: string): ModelError {
  const body = parseWireObject(payload);
  return fromProviderError(body?.error ?? body ?? payload);
}

/**
 * A request that failed before an answer began. The SDK's own error of an answered request is not kept as the cause: it holds the raw body and
 * all headers, and causes end up in logs.
 */
export function fromRequestError(error: unknown, apiKey: string): ModelError {
  if (error instanceof APIConnectionTimeoutError) return unreachable(error, error.message);
  if (error instanceof APIConnectionError) return unreachable(error);
  const message = cut((error instanceof Error ? error.message : String(error)).replaceAll(apiKey, '[api key]'));
  if (error instanceof APIError && typeof error.status === 'number') {
    return new ModelError(`The provider answered ${message}`, { status: error.status, retryable: isRetryable(error.status) });
  }
  return new ModelError(`The request could not be sent: ${message}`, { retryable: false, cause: error });
}

function toStatus(value: unknown): number | undefined {
  const status = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof status === 'number' && status >= 400 && status < 600 ? status : undefined;
}
