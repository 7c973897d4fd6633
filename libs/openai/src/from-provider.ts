import { ModelError } from '@toolloop/protocol';
import {
  isWireObject,
  parseWireObject,
  refused,
  reported,
  unreachable,
  type WireObject,
} from '@toolloop/wire';
import type { APIError as SdkError } from 'openai';

/**
 * Makes an error of the `error` of a chunk or of a JSON body, or of the payload of an
 * `event: error`.
 */
export function fromProviderError(error: unknown): ModelError {
  const fields = isWireObject(error) ? error : { message: error };
  const status = toStatus(fields.status) ?? toStatus(fields.status_code) ?? toStatus(fields.code);
  const isTransient = TRANSIENT.has(String(fields.type)) || TRANSIENT.has(String(fields.code));
  return reported({
    kind: kindOf(fields),
    message: messageOf(fields),
    status,
    ...(status === undefined && { retryable: isTransient }),
  });
}

/** The codes of temporary errors, for providers that give no status. */
const TRANSIENT = new Set([
  'server_error',
  'internal_server_error',
  'api_error',
  'overloaded_error',
  'rate_limit_error',
  'rate_limit_exceeded',
  'timeout',
]);

export function fromErrorPayload(payload: string): ModelError {
  const body = parseWireObject(payload);
  return fromProviderError(body?.error ?? body ?? payload);
}

/**
 * Makes the error of a request that failed before an answer began. The SDK's own error of an
 * answered request is not kept as the cause: it holds the raw body and all headers, and causes end
 * up in logs.
 */
export async function fromRequestError(error: unknown): Promise<ModelError> {
  const { APIConnectionError, APIConnectionTimeoutError, APIError } = await import('openai');
  if (error instanceof APIConnectionTimeoutError) return unreachable(error, error.message);
  if (error instanceof APIConnectionError) return unreachable(error);
  if (error instanceof APIError && typeof error.status === 'number') {
    const {
      status,
      error: said,
      requestID: requestId,
      headers,
    } = error as SdkError<number, Headers, object | undefined>;
    // Where a body is no error of the API, such as some server's page, the SDK has none.
    const fields = isWireObject(said) ? said : { message: said };
    return refused(status, {
      kind: kindOf(fields),
      message: messageOf(fields),
      requestId,
      headers,
    });
  }
  const message = error instanceof Error ? error.message : String(error);
  return new ModelError(`The request could not be sent: ${message}`, {
    code: 'invalid_request',
    cause: error,
  });
}

/**
 * Chooses the most telling code of an error: `code` before `type`, unless it only repeats the
 * status as a number.
 */
function kindOf({ code, type }: WireObject): unknown {
  return typeof code === 'string' && !/^\d+$/.test(code) ? code : type;
}

/**
 * Reads the message of an error. OpenRouter says only that the provider behind it failed, and
 * passes on what that one answered: its message is part of ours.
 */
function messageOf({ message, metadata }: WireObject): unknown {
  const raw =
    isWireObject(metadata) && typeof metadata.raw === 'string'
      ? parseWireObject(metadata.raw)
      : undefined;
  const behind = isWireObject(raw?.error) ? raw.error.message : raw?.message;
  return typeof message === 'string' && typeof behind === 'string'
    ? `${message}: ${behind}`
    : message;
}

function toStatus(value: unknown): number | undefined {
  const status = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof status === 'number' && status >= 400 && status < 600 ? status : undefined;
}

/**
 * The hint of an error message for the most frequent mistake where a server answers with something
 * else than these APIs do.
 */
export const WHERE_TO_LOOK = "Does the baseURL end in the API's path, such as /v1?";
