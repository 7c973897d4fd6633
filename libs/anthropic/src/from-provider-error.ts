import { APIConnectionError, APIConnectionTimeoutError, APIError } from '@anthropic-ai/sdk';
import { ModelError } from '@toolloop/core';
import { isWireObject, parseWireObject, refused, reported, unreachable, type WireObject } from '@toolloop/wire';

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
  const { error: said = payload } = payload;
  const error = isWireObject(said) ? said : { message: said };
  return reported({ kind: kindOf(error), message: error.message, status: STATUSES.get(error.type), requestId: payload.request_id });
}

/** An `event: error`, whose payload need not be JSON where a proxy wrote it. */
export function fromErrorPayload(payload: string): ModelError {
  return fromProviderError(parseWireObject(payload) ?? { message: payload });
}

/**
 * A request that failed before an answer began. The SDK's own error of an answered request is not kept as the cause: it holds the raw body and
 * all headers, and causes end up in logs.
 */
export function fromRequestError(error: unknown): ModelError {
  if (error instanceof APIConnectionTimeoutError) return unreachable(error, error.message);
  if (error instanceof APIConnectionError) return unreachable(error);
  if (error instanceof APIError && typeof error.status === 'number') {
    const { status, type, apiMessage: message, requestID: requestId, headers } = error as APIError<number, Headers>;
    return refused(status, { kind: kindOf({ type }), message, requestId, headers });
  }
  const message = error instanceof Error ? error.message : String(error);
  return new ModelError(`The request could not be sent: ${message}`, { cause: error });
}

/** An error that calls itself an error says nothing. */
function kindOf({ type }: WireObject): unknown {
  return type === 'error' ? undefined : type;
}
