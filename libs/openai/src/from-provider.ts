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
  wireObjectsIn,
} from '@toolloop/wire';
import type { APIError as SdkError } from 'openai';

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

/**
 * The finish reasons after which no call may run, even if the answer holds one. `abort` is vLLM's,
 * `insufficient_system_resource` DeepSeek's, `network_error` and `sensitive` Z.ai's, `model_length`
 * Mistral's; gateways pass on the reasons of Gemini (in capitals) and of Anthropic.
 */
const UNFINISHED = new Map<string, ModelFinishReason>([
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['max_output_tokens', 'length'],
  ['model_length', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['content_filter', 'content_filter'],
  ['sensitive', 'content_filter'],
  ['refusal', 'content_filter'],
  ['safety', 'content_filter'],
  ['recitation', 'content_filter'],
  ['blocklist', 'content_filter'],
  ['prohibited_content', 'content_filter'],
  ['spii', 'content_filter'],
  ['error', 'incomplete'],
  ['abort', 'incomplete'],
  ['insufficient_system_resource', 'incomplete'],
  ['network_error', 'incomplete'],
  ['malformed_function_call', 'incomplete'],
  ['cancelled', 'incomplete'],
  ['timeout', 'incomplete'],
]);

/**
 * Maps a finish reason. Every reason outside of {@link UNFINISHED} ends an answer normally: `stop`,
 * `eos`, `tool_calls`, and unknown ones. OpenAI sends `stop` for a call that it was forced to make.
 */
export function fromFinishReason(reason: string, hasCalls: boolean): ModelFinishReason {
  return UNFINISHED.get(reason.toLowerCase()) ?? (hasCalls ? 'tool_calls' : 'stop');
}

/** Maps the `incomplete_details.reason` of an incomplete response. */
export function fromIncompleteReason(reason: unknown): ModelFinishReason {
  return (typeof reason === 'string' ? UNFINISHED.get(reason) : undefined) ?? 'incomplete';
}

/** Reads the `usage` of a chat completion; undefined when the value holds no counts. */
export function fromChatUsage(value: unknown): Usage | undefined {
  if (!isWireObject(value)) return undefined;
  const input = toCount(value.prompt_tokens);
  const output = toCount(value.completion_tokens);
  if (input === undefined && output === undefined) return undefined;
  const cached =
    detailIn(value.prompt_tokens_details, 'cached_tokens') ??
    toCount(value.prompt_cache_hit_tokens) ??
    toCount(value.cached_tokens);
  const written =
    detailIn(value.prompt_tokens_details, 'cache_write_tokens') ??
    toCount(value.cache_creation_input_tokens);
  const reasoning = detailIn(value.completion_tokens_details, 'reasoning_tokens');
  return toUsage(
    { inputTokens: input ?? 0, outputTokens: output ?? 0 },
    { cached, written, reasoning, cost: toCost(value) },
  );
}

interface UsageDetails {
  readonly cached: number | undefined;
  readonly written: number | undefined;
  readonly reasoning: number | undefined;
  readonly cost: number | undefined;
}

function toUsage(tokens: Usage, { cached, written, reasoning, cost }: UsageDetails): Usage {
  return {
    ...tokens,
    ...(cached !== undefined && { cachedInputTokens: cached }),
    // Zero is what providers without such a price say of every answer.
    ...(written !== undefined && written > 0 && { cacheWriteInputTokens: written }),
    ...(reasoning !== undefined && { reasoningTokens: reasoning }),
    ...(cost !== undefined && { costUsd: cost }),
  };
}

const TICKS_PER_USD = 10_000_000_000;

/**
 * Reads the cost of an answer in USD: a number at OpenRouter and at Vercel's gateway, an object at
 * Perplexity, ten-billionths of a dollar at xAI. With a key of one's own at the provider behind
 * OpenRouter, that provider's cost comes on top.
 */
function toCost({
  cost,
  is_byok: isByok,
  cost_details: details,
  cost_in_usd_ticks: ticks,
}: WireObject): number | undefined {
  const own = toCount(isWireObject(cost) ? cost.total_cost : cost);
  const upstream = isByok === true ? detailIn(details, 'upstream_inference_cost') : undefined;
  const inTicks = toCount(ticks);
  const usd = own === undefined ? inTicks && inTicks / TICKS_PER_USD : own + (upstream ?? 0);
  return usd !== undefined && usd >= 0 ? usd : undefined;
}

export function detailIn(details: unknown, key: string): number | undefined {
  return isWireObject(details) ? toCount(details[key]) : undefined;
}

export function toCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** Reads the `usage` of a response; undefined when the value holds no counts. */
export function fromResponsesUsage(value: unknown): Usage | undefined {
  if (!isWireObject(value)) return undefined;
  const [input, output] = [toCount(value.input_tokens), toCount(value.output_tokens)];
  if (input === undefined && output === undefined) return undefined;
  const cached = detailIn(value.input_tokens_details, 'cached_tokens');
  const written = detailIn(value.input_tokens_details, 'cache_write_tokens');
  const reasoning = detailIn(value.output_tokens_details, 'reasoning_tokens');
  return toUsage(
    { inputTokens: input ?? 0, outputTokens: output ?? 0 },
    { cached, written, reasoning, cost: toCost(value) },
  );
}

/**
 * Reads the citations in the annotations of a message of the responses API, whose text begins at
 * `textAt` in the answer's.
 */
export function fromMessageAnnotations(
  { content }: WireObject,
  textAt: number,
): readonly Citation[] {
  let at = textAt;
  return wireObjectsIn(content).flatMap(({ type, text, annotations }) => {
    const start = at;
    if (type === 'output_text' && typeof text === 'string') at += text.length;
    return wireObjectsIn(annotations).flatMap((annotation) => fromAnnotation(annotation, start));
  });
}

/**
 * Reads the citations in the `annotations` of a chat completion: `{ type: 'url_citation',
 * url_citation: { url, title, start_index, end_index } }`.
 */
export function fromChatAnnotations(annotations: unknown): readonly Citation[] {
  return wireObjectsIn(annotations).flatMap(({ url_citation: citation }) =>
    isWireObject(citation) ? fromAnnotation(citation, 0) : [],
  );
}

/** Reads the addresses of sources, which Perplexity and xAI list beside the choices. */
export function fromSources(sources: unknown): readonly Citation[] {
  return Array.isArray(sources)
    ? sources.flatMap((url: unknown) => (isWebAddress(url) ? { url } : []))
    : [];
}

/**
 * Reads an annotation that cites a URL, a file, or a file that code made. Any other, such as a
 * path, cites nothing.
 */
function fromAnnotation(annotation: WireObject, textAt: number): readonly Citation[] {
  const { url, title, filename, file_id: file, content } = annotation;
  const source = [filename, file].find((value) => typeof value === 'string');
  if (!isWebAddress(url) && typeof source !== 'string') return [];
  return [
    {
      ...(isWebAddress(url) && { url }),
      ...(typeof title === 'string' && title !== '' && { title }),
      ...(typeof source === 'string' && { source }),
      ...(typeof content === 'string' && { quote: content }),
      ...toRange(annotation, textAt),
    },
  ];
}

function toRange(
  { start_index: start, end_index: end }: WireObject,
  textAt: number,
): Pick<Citation, 'start' | 'end'> {
  return isPosition(start) && isPosition(end) && end > start
    ? { start: textAt + start, end: textAt + end }
    : {};
}

function isPosition(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}
