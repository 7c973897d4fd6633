import { ModelError } from '@toolloop/core';
import { APIConnectionError, APIConnectionTimeoutError, APIError } from 'openai';
import { isWireObject, parseWireObject } from './wire-object.js';

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

/** An error page can be megabytes of HTML. */
const MESSAGE_CHARACTERS = 500;

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
  if (error instanceof APIConnectionError) {
    // Fetch says no more than "fetch failed"; what failed is in the cause of the cause.
    const message = error instanceof APIConnectionTimeoutError ? error.message : rootOf(error);
    return new ModelError(`The provider could not be reached: ${message}`, { retryable: true, cause: error.cause });
  }
  const message = cut((error instanceof Error ? error.message : String(error)).replaceAll(apiKey, '[api key]'));
  if (error instanceof APIError && typeof error.status === 'number') {
    return new ModelError(`The provider answered ${message}`, { status: error.status, retryable: isRetryable(error.status) });
  }
  return new ModelError(`The request could not be sent: ${message}`, { retryable: false, cause: error });
}

/** The error without the key in its text: a provider may echo what it was sent, and errors end up in logs. */
export function withoutKey(error: ModelError, apiKey = ''): ModelError {
  if (apiKey === '' || !error.message.includes(apiKey)) return error;
  return new ModelError(error.message.replaceAll(apiKey, '[api key]'), error.options);
}

/** A connection that broke while the answer was being read. */
export function fromReadError(error: unknown): ModelError {
  return new ModelError(`The connection broke in the middle of an answer: ${rootOf(error)}`, { retryable: true, cause: error });
}

/** What is at the bottom of a chain of causes, e.g. `connect ECONNREFUSED 127.0.0.1:443`. */
function rootOf(error: unknown): string {
  const { cause, message, code } = isWireObject(error) ? error : { message: error };
  if (isWireObject(cause)) return rootOf(cause);
  return String(message === '' ? code : message);
}

function isRetryable(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

function toStatus(value: unknown): number | undefined {
  const status = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof status === 'number' && status >= 400 && status < 600 ? status : undefined;
}

function cut(message: string): string {
  return message.length > MESSAGE_CHARACTERS ? `${message.slice(0, MESSAGE_CHARACTERS)}…` : message;
}
