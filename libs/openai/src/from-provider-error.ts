import { ModelError } from '@toolloop/core';
import { isWireObject, parseWireObject, refused, reported, unreachable, type WireObject } from '@toolloop/wire';
import { APIConnectionError, APIConnectionTimeoutError, APIError } from 'openai';

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
  return reported({ kind: kindOf(fields), message: fields.message, status, ...(status === undefined && { retryable: isTransient }) });
}

export function fromErrorPayload(payload: string): ModelError {
  const body = parseWireObject(payload);
  return fromProviderError(body?.error ?? body ?? payload);
}

/**
 * A request that failed before an answer began. The SDK's own error of an answered request is not kept as the cause: it holds the raw body and
 * all headers, and causes end up in logs.
 */
export function fromRequestError(error: unknown): ModelError {
  if (error instanceof APIConnectionTimeoutError) return unreachable(error, error.message);
  if (error instanceof APIConnectionError) return unreachable(error);
  if (error instanceof APIError && typeof error.status === 'number') {
    const { status, error: said, requestID: requestId, headers } = error as APIError<number, Headers, object | undefined>;
    // Where a body is no error of the API, such as some server's page, the SDK has none.
    const fields = isWireObject(said) ? said : { message: said };
    return refused(status, { kind: kindOf(fields), message: fields.message, requestId, headers });
  }
  const message = error instanceof Error ? error.message : String(error);
  return new ModelError(`The request could not be sent: ${message}`, { cause: error });
}

/** A code says more than a type, but a number says no more than the status. */
function kindOf({ code, type }: WireObject): unknown {
  return typeof code === 'string' && !/^\d+$/.test(code) ? code : type;
}

function toStatus(value: unknown): number | undefined {
  const status = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof status === 'number' && status >= 400 && status < 600 ? status : undefined;
}
