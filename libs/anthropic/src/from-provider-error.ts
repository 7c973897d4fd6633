import { APIConnectionError, APIConnectionTimeoutError, APIError } from '@anthropic-ai/sdk';
import { ModelError } from '@toolloop/core';
import { isWireObject, parseWireObject, type WireObject } from './wire-object.js';

/** An error inside a stream names its kind only; these are the statuses the same kinds have as answers (https://platform.claude.com/docs/en/api/errors). */
const STATUSES = new Map<unknown, number>([
  ['invalid_request_error', 400],
  ['authentication_error', 401],
  ['billing_error', 402],
  ['permission_error', 403],
  ['not_found_error', 404],
  ['conflict_error', 409],
  ['request_too_large', 413],
  ['rate_limit_error', 429],
  ['api_error', 500],
  ['timeout_error', 504],
  ['overloaded_error', 529],
]);

/** A message that quotes what it refuses can be as long as the request. */
const MESSAGE_CHARACTERS = 500;

/** The payload of an `error` event, or a JSON body that is an error: `{ type: 'error', error: { type, message }, request_id }`. */
export function fromProviderError(payload: WireObject): ModelError {
  const error = isWireObject(payload.error) ? payload.error : payload;
  const status = STATUSES.get(error.type);
  const message = typeof error.message === 'string' ? cut(error.message) : 'It does not say why.';
  return new ModelError(`The provider reported an error: ${kindOf(error)}${message}${named(payload.request_id)}`, {
    status,
    retryable: status === undefined ? undefined : isRetryable(status),
  });
}

/** An `event: error`, whose payload need not be JSON where a proxy wrote it. */
export function fromErrorPayload(payload: string): ModelError {
  return fromProviderError(parseWireObject(payload) ?? { message: payload });
}

/**
 * A request that failed before an answer began. The SDK's own error of an answered request is not kept as the cause: it holds the raw body and
 * all headers, and causes end up in logs. Nor is the text of a body that is no error of this API: whatever server sent it may have quoted the request.
 */
export function fromRequestError(error: unknown, apiKey: string): ModelError {
  if (error instanceof APIConnectionError) {
    // Fetch says no more than "fetch failed"; what failed is in the cause of the cause.
    const message = error instanceof APIConnectionTimeoutError ? error.message : rootOf(error);
    return new ModelError(`The provider could not be reached: ${message}`, { retryable: true, cause: error.cause });
  }
  if (error instanceof APIError && typeof error.status === 'number') {
    const { type, apiMessage, requestID } = error;
    const status: number = error.status;
    const message = typeof apiMessage === 'string' ? cut(apiMessage) : 'It does not say why.';
    const text = `The provider answered ${status}: ${kindOf({ type })}${message}${named(requestID)}`;
    return withoutKey(new ModelError(text, { status, retryable: isRetryable(status) }), apiKey);
  }
  const message = cut(error instanceof Error ? error.message : String(error));
  return withoutKey(new ModelError(`The request could not be sent: ${message}`, { retryable: false, cause: error }), apiKey);
}

/** The error without the key in its text: a provider may echo what it was sent, and errors end up in logs. */
export function withoutKey(error: ModelError, apiKey: string): ModelError {
  if (!error.message.includes(apiKey)) return error;
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

function kindOf({ type }: WireObject): string {
  return typeof type === 'string' && type !== 'error' ? `${type.slice(0, 64)}: ` : '';
}

/** What the provider's support asks for. */
function named(requestId: unknown): string {
  return typeof requestId === 'string' ? ` (request ${requestId.slice(0, 64)})` : '';
}

function isRetryable(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

function cut(message: string): string {
  return message.length > MESSAGE_CHARACTERS ? `${message.slice(0, MESSAGE_CHARACTERS)}…` : message;
}
