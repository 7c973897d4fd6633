import { APIConnectionError, APIConnectionTimeoutError, APIError } from '@anthropic-ai/sdk';
import { ModelError } from '@toolloop/core';
import { cut, isRetryable, isWireObject, parseWireObject, unreachable, withoutKey, type WireObject } from '@toolloop/wire';

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
  if (error instanceof APIConnectionTimeoutError) return unreachable(error, error.message);
  if (error instanceof APIConnectionError) return unreachable(error);
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

function kindOf({ type }: WireObject): string {
  return typeof type === 'string' && type !== 'error' ? `${type.slice(0, 64)}: ` : '';
}

/** What the provider's support asks for. */
function named(requestId: unknown): string {
  return typeof requestId === 'string' ? ` (request ${requestId.slice(0, 64)})` : '';
}
