import { ModelError } from '@toolloop/protocol';
import { isWireObject } from './wire-object.js';

/** An error page can be megabytes of HTML, and a message that quotes what it refuses as long as the request. */
const MESSAGE_CHARACTERS = 500;

const MOST_WORD_CHARACTERS = 64;

/** A request that got no answer. Fetch says no more than "fetch failed"; what failed is in the cause of the cause. */
export function unreachable(error: Error, message = rootOf(error)): ModelError {
  return new ModelError(`The provider could not be reached: ${message}`, { retryable: true, cause: error.cause });
}

/** A connection that broke while the answer was being read. */
export function fromReadError(error: unknown): ModelError {
  return new ModelError(`The connection broke in the middle of an answer: ${rootOf(error)}`, { retryable: true, cause: error });
}

/** What a provider said of a failure. Nothing about it is certain. */
export interface Refusal {
  /** The provider's word for the failure. */
  readonly kind?: unknown;
  readonly message?: unknown;
  readonly status?: number;
  /** @default what the provider says of it (`x-should-retry`), else what the status says */
  readonly retryable?: boolean;
  readonly requestId?: unknown;
  /** Of the answer, where it was one. */
  readonly headers?: Headers;
}

/** An answer that is a failure. Of its body only the fields of an API's error are told: whatever server sent it may have quoted the request. */
export function refused(status: number, refusal: Omit<Refusal, 'status'>): ModelError {
  return toModelError(`The provider answered ${status}`, { ...refusal, status });
}

/** A failure that the provider tells of in the middle of an answer. */
export function reported(refusal: Refusal): ModelError {
  return toModelError('The provider reported an error', refusal);
}

function toModelError(start: string, { kind, message, status, retryable, requestId, headers }: Refusal): ModelError {
  const [word, id] = [wordIn(kind), wordIn(requestId)];
  const why = typeof message === 'string' && message !== '' ? cut(message) : 'It does not say why.';
  const text = `${start}: ${word === undefined ? '' : `${word}: `}${why}${id === undefined ? '' : ` (request ${id})`}`;
  return new ModelError(text, {
    status,
    retryable: retryable ?? saidRetryable(headers) ?? (status !== undefined && isRetryable(status)),
    requestId: id,
    retryAfterMs: headers && retryAfterMs(headers),
  });
}

function wordIn(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, MOST_WORD_CHARACTERS) : undefined;
}

/** The SDKs go by it, so that whoever asks again behind them has to. */
function saidRetryable(headers: Headers | undefined): boolean | undefined {
  const said = headers?.get('x-should-retry');
  return said === 'true' || (said === 'false' ? false : undefined);
}

/** `Retry-After` is in seconds or a date; some say it in milliseconds, too. */
function retryAfterMs(headers: Headers): number | undefined {
  const [ms, seconds] = [headers.get('retry-after-ms'), headers.get('retry-after')];
  if (ms !== null && Number.isFinite(Number(ms))) return Math.max(0, Number(ms));
  if (seconds === null) return undefined;
  const wait = Number.isFinite(Number(seconds)) ? Number(seconds) * 1000 : Date.parse(seconds) - Date.now();
  return Number.isNaN(wait) ? undefined : Math.max(0, wait);
}

/** Whether the same request may succeed a little later, by the status of the answer it got. */
function isRetryable(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/** A message of a length that a log can bear. */
function cut(message: string): string {
  return message.length > MESSAGE_CHARACTERS ? `${message.slice(0, MESSAGE_CHARACTERS)}…` : message;
}

/** What is at the bottom of a chain of causes, e.g. `connect ECONNREFUSED 127.0.0.1:443`. */
function rootOf(error: unknown): string {
  const { cause, message, code } = isWireObject(error) ? error : { message: error };
  if (isWireObject(cause)) return rootOf(cause);
  return String(message === '' ? code : message);
}
