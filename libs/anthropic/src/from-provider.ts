import { APIConnectionError, APIConnectionTimeoutError, APIError } from '@anthropic-ai/sdk';
import { type Citation, isWebAddress, ModelError, type ModelFinishReason, type Usage } from '@toolloop/protocol';
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

/**
 * What a provider counted; undefined when the value counts nothing. The API counts apart what it read from its cache and what it wrote to it; here
 * both are input.
 */
export function fromMessagesUsage(value: unknown): Usage | undefined {
  if (!isWireObject(value)) return undefined;
  const { input_tokens: fresh, output_tokens: output, cache_creation_input_tokens: written, cache_read_input_tokens: cached } = value;
  if (!isCount(fresh) && !isCount(output)) return undefined;
  const details = value.output_tokens_details;
  const reasoning = isWireObject(details) ? details.thinking_tokens : undefined;
  return {
    inputTokens: toCount(fresh) + toCount(written) + toCount(cached),
    outputTokens: toCount(output),
    ...(isCount(cached) && { cachedInputTokens: cached }),
    ...(isCount(written) && { cacheWriteInputTokens: written }),
    ...(isCount(reasoning) && { reasoningTokens: reasoning }),
  };
}

/** The counts as they stand now: a later count replaces an earlier one, and one that is null or left out does not. */
export function laterCounts(before: WireObject, now: unknown): WireObject {
  if (!isWireObject(now)) return before;
  return { ...before, ...Object.fromEntries(Object.entries(now).filter(([, count]) => count !== null && count !== undefined)) };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

function toCount(value: unknown): number {
  return isCount(value) ? value : 0;
}

/**
 * Reasons after which no call may run, though one may be there: with `max_tokens` its arguments are cut
 * (https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons).
 */
const UNFINISHED = new Map<string, ModelFinishReason>([
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['refusal', 'content_filter'],
]);

/**
 * Everything else ends an answer well: `end_turn`, `tool_use`, `stop_sequence`, and words not known yet. With `pause_turn` the provider's own tools
 * have not finished; where a call of ours is there too, they go on once it has its result.
 */
export function fromStopReason(reason: string, hasCalls: boolean): ModelFinishReason {
  if (reason === 'pause_turn' && !hasCalls) return 'incomplete';
  return UNFINISHED.get(reason) ?? (hasCalls ? 'tool_calls' : 'stop');
}

/**
 * A citation of a text block (https://platform.claude.com/docs/en/build-with-claude/citations): of a web page, a search result, or a document that the user
 * sent. It stands for all of the block.
 */
export function fromCitation(citation: WireObject, place: { readonly start: number; readonly end: number }): Citation {
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

/** The name of a tool that the provider runs, of whose call this block is the beginning; a tool behind a connector is named with it. */
export function fromServerTool({ type, name, server_name: server }: WireObject): string | undefined {
  if (typeof name !== 'string' || (type !== 'server_tool_use' && type !== 'mcp_tool_use')) return undefined;
  return typeof server === 'string' ? `${server}/${name}` : name;
}

/** Whether the result of such a call says that it failed. */
export function isErrorResult({ is_error: isError, content }: WireObject): boolean {
  return isError === true || (isWireObject(content) && typeof content.type === 'string' && content.type.endsWith('_error'));
}
