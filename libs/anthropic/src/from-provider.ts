import type { APIError as SdkError } from '@anthropic-ai/sdk';
import {
  type Citation,
  isWebAddress,
  ModelError,
  type ModelFinishReason,
  type Usage,
} from '@toolloop/protocol';
import {
  isWireObject,
  parseWireObject,
  refused,
  reported,
  unreachable,
  type WireObject,
} from '@toolloop/wire';

/**
 * Makes an error of the payload of an `error` event, or of a JSON body that is an error:
 * `{ type: 'error', error: { type, message }, request_id }`.
 */
export function fromProviderError(payload: WireObject): ModelError {
  const { error: said = payload } = payload;
  const error = isWireObject(said) ? said : { message: said };
  return reported({
    kind: kindOf(error),
    message: error.message,
    status: STATUSES.get(error.type),
    requestId: payload.request_id,
  });
}

/**
 * The statuses of the kinds of error, since an error inside a stream names its kind only
 * (https://platform.claude.com/docs/en/api/errors).
 */
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

/** Makes the error of an `event: error`, whose payload need not be JSON where a proxy wrote it. */
export function fromErrorPayload(payload: string): ModelError {
  return fromProviderError(parseWireObject(payload) ?? { message: payload });
}

/**
 * Makes the error of a request that failed before an answer began. The SDK's own error of an
 * answered request is not kept as the cause: it holds the raw body and all headers, and causes end
 * up in logs.
 */
export async function fromRequestError(error: unknown): Promise<ModelError> {
  const { APIConnectionError, APIConnectionTimeoutError, APIError } =
    await import('@anthropic-ai/sdk');
  if (error instanceof APIConnectionTimeoutError) return unreachable(error, error.message);
  if (error instanceof APIConnectionError) return unreachable(error);
  if (error instanceof APIError && typeof error.status === 'number') {
    const {
      status,
      type,
      apiMessage: message,
      requestID: requestId,
      headers,
    } = error as SdkError<number, Headers>;
    return refused(status, { kind: kindOf({ type }), message, requestId, headers });
  }
  const message = error instanceof Error ? error.message : String(error);
  return new ModelError(`The request could not be sent: ${message}`, {
    code: 'invalid_request',
    cause: error,
  });
}

/** Reads the kind of an error; `error` is none. */
function kindOf({ type }: WireObject): unknown {
  return type === 'error' ? undefined : type;
}

/**
 * Reads the usage; undefined when the value holds no counts. The API counts tokens read from its
 * cache, and written to it, apart from the input; here both are part of it. Gateways such as
 * OpenRouter add the cost in USD.
 */
export function fromMessagesUsage(value: unknown): Usage | undefined {
  if (!isWireObject(value)) return undefined;
  const {
    input_tokens: fresh,
    output_tokens: output,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: cached,
    cost,
  } = value;
  if (!isCount(fresh) && !isCount(output)) return undefined;
  const details = value.output_tokens_details;
  const reasoning = isWireObject(details) ? details.thinking_tokens : undefined;
  return {
    inputTokens: toCount(fresh) + toCount(written) + toCount(cached),
    outputTokens: toCount(output),
    ...(isCount(cached) && { cachedInputTokens: cached }),
    ...(isCount(written) && { cacheWriteInputTokens: written }),
    ...(isCount(reasoning) && { reasoningTokens: reasoning }),
    ...(isCount(cost) && cost >= 0 && { costUsd: cost }),
  };
}

/**
 * Merges two sets of counts: a later count replaces an earlier one, unless it is null or absent.
 */
export function laterCounts(before: WireObject, now: unknown): WireObject {
  if (!isWireObject(now)) return before;
  return {
    ...before,
    ...Object.fromEntries(
      Object.entries(now).filter(([, count]) => count !== null && count !== undefined),
    ),
  };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

function toCount(value: unknown): number {
  return isCount(value) ? value : 0;
}

/**
 * The stop reasons after which no call may run, even if the answer holds one: with `max_tokens` its
 * arguments are cut (https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons).
 */
const UNFINISHED = new Map<string, ModelFinishReason>([
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['refusal', 'content_filter'],
]);

/**
 * Maps a stop reason. Every other reason ends an answer normally: `end_turn`, `tool_use`,
 * `stop_sequence`, and unknown ones. With `pause_turn` the provider's own tools have not finished;
 * if the answer also holds a call of the application's, they continue once that has its result.
 */
export function fromStopReason(reason: string, hasCalls: boolean): ModelFinishReason {
  if (reason === 'pause_turn' && !hasCalls) return 'incomplete';
  return UNFINISHED.get(reason) ?? (hasCalls ? 'tool_calls' : 'stop');
}

/**
 * Reads a citation of a text block
 * (https://platform.claude.com/docs/en/build-with-claude/citations): of a web page, a search
 * result, or a document that the user sent. It covers the whole block.
 */
export function fromCitation(
  citation: WireObject,
  place: { readonly start: number; readonly end: number },
): Citation {
  const { url, title, document_title: document, source, cited_text: quote } = citation;
  const name = [title, document].find((value) => typeof value === 'string' && value !== '');
  return {
    ...(isWebAddress(url) ? { url } : isWebAddress(source) && { url: source }),
    ...(typeof name === 'string' && { title: name }),
    ...(typeof source === 'string' && !isWebAddress(source) && { source }),
    ...(typeof quote === 'string' && { quote }),
    ...(place.end > place.start && place),
  };
}

/**
 * Names the provider's tool whose call begins with this block; a tool behind a connector is named
 * with it.
 */
export function fromServerTool({
  type,
  name,
  server_name: server,
}: WireObject): string | undefined {
  if (typeof name !== 'string' || (type !== 'server_tool_use' && type !== 'mcp_tool_use'))
    return undefined;
  return typeof server === 'string' ? `${server}/${name}` : name;
}

/** Tells whether the result of a provider's tool is a failure. */
export function isErrorResult({ is_error: isError, content }: WireObject): boolean {
  return (
    isError === true ||
    (isWireObject(content) && typeof content.type === 'string' && content.type.endsWith('_error'))
  );
}
