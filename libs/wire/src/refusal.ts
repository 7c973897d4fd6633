import { ModelError, type ModelErrorCode } from '@toolloop/protocol';

/** A failure as the provider describes it, unchecked. */
export interface Refusal {
  /** The provider's code of the failure. */
  readonly kind?: unknown;
  readonly message?: unknown;
  readonly status?: number;
  /** @default the provider's `x-should-retry`, else true for the statuses 408, 409, 429 and 5xx */
  readonly retryable?: boolean;
  readonly requestId?: unknown;
  /** The headers of the answer, if there was one. */
  readonly headers?: Headers;
}

/** The longest message of a provider that is kept: an error page can be megabytes of HTML. */
const MESSAGE_CHARACTERS = 500;

const MOST_WORD_CHARACTERS = 64;

/**
 * Makes the error of an answer with a failure status. It takes only an API's error fields from the
 * body, since the server may have quoted the request in others.
 */
export function refused(status: number, refusal: Omit<Refusal, 'status'>): ModelError {
  return toModelError(`The provider answered ${status}`, { ...refusal, status });
}

/** Makes the error of a failure that the provider reports in the middle of an answer. */
export function reported(refusal: Refusal): ModelError {
  return toModelError('The provider reported an error', refusal);
}

function toModelError(
  start: string,
  { kind, message, status, retryable, requestId, headers }: Refusal,
): ModelError {
  const [word, id] = [wordIn(kind), wordIn(requestId)];
  const why = typeof message === 'string' && message !== '' ? cut(message) : reasonOf(status);
  const text = `${start}: ${word === undefined ? '' : `${word}: `}${why}${id === undefined ? '' : ` (request ${id})`}`;
  return new ModelError(text, {
    code: codeIn(kind, message, status),
    status,
    retryable: retryable ?? saidRetryable(headers) ?? (status !== undefined && isRetryable(status)),
    requestId: id,
    retryAfterMs: headers && retryAfterMs(headers),
  });
}

function reasonOf(status: number | undefined): string {
  const isRedirect = status !== undefined && status >= 300 && status < 400;
  return isRedirect
    ? 'It redirects, and redirects are not followed. Set `baseURL` to the address of the API itself.'
    : 'It does not say why.';
}

/**
 * The codes of providers' own words for a failure, and of their sentences where there is no word:
 * the first that fits counts.
 */
const CODES: readonly (readonly [RegExp, ModelErrorCode])[] = [
  [
    /context_length|context_window|model_max_length|maximum context|context window|prompt is too long|too many (input )?tokens/i,
    'context_length',
  ],
  [
    /content_filter|content_policy|content_management|responsible_ai|moderation|safety_|refusal|prohibited_content/i,
    'refused',
  ],
  [
    /insufficient_quota|billing|credit balance|insufficient_credits|payment_required/i,
    'quota_exceeded',
  ],
];

/** The words of providers that give no status, such as in the middle of an answer. */
const WORDS: readonly (readonly [RegExp, ModelErrorCode])[] = [
  [/invalid_api_key|authentication|unauthorized/i, 'unauthorized'],
  [/permission|forbidden/i, 'forbidden'],
  [/rate_limit|too_many_requests/i, 'rate_limited'],
  [/overloaded|unavailable|capacity/i, 'overloaded'],
  [/not_found/i, 'not_found'],
  [/too_large/i, 'request_too_large'],
  [/invalid_request|invalid_prompt/i, 'invalid_request'],
  [/server_error|internal|api_error|timeout/i, 'provider_error'],
];

/**
 * Reads the kind of a failure; undefined where the status alone tells it. A message is read only
 * for a refused request, since any other may quote anything.
 */
function codeIn(
  kind: unknown,
  message: unknown,
  status: number | undefined,
): ModelErrorCode | undefined {
  const isRefused = status === 400 || status === 413 || status === 422;
  const said = [kind, isRefused && message].filter((text) => typeof text === 'string').join(' ');
  const special = CODES.find(([words]) => words.test(said));
  if (special !== undefined || status !== undefined) return special?.[1];
  return typeof kind === 'string' ? WORDS.find(([words]) => words.test(kind))?.[1] : undefined;
}

function wordIn(value: unknown): string | undefined {
  return typeof value === 'string' && value !== ''
    ? value.slice(0, MOST_WORD_CHARACTERS)
    : undefined;
}

/**
 * Reads the provider's own verdict, which the SDKs follow, so a retry outside of them has to follow
 * it too.
 */
function saidRetryable(headers: Headers | undefined): boolean | undefined {
  const said = headers?.get('x-should-retry');
  return said === 'true' || (said === 'false' ? false : undefined);
}

/**
 * Reads the wait before another request. `Retry-After` is in seconds or a date; some providers send
 * milliseconds, too.
 */
function retryAfterMs(headers: Headers): number | undefined {
  const [ms, seconds] = [headers.get('retry-after-ms'), headers.get('retry-after')];
  if (ms !== null && Number.isFinite(Number(ms))) return Math.max(0, Number(ms));
  if (seconds === null) return undefined;
  const wait = Number.isFinite(Number(seconds))
    ? Number(seconds) * 1000
    : Date.parse(seconds) - Date.now();
  return Number.isNaN(wait) ? undefined : Math.max(0, wait);
}

/** Tells by the status of an answer whether the same request may succeed a little later. */
function isRetryable(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/** Cuts a message to a length that suits a log. */
function cut(message: string): string {
  return message.length > MESSAGE_CHARACTERS ? `${message.slice(0, MESSAGE_CHARACTERS)}…` : message;
}
