import type {
  Agent,
  ClientRequest,
  IncomingMessage,
  OutgoingHttpHeaders,
  RequestOptions,
} from 'node:http';
import type { Socket } from 'node:net';
import { pipeline, type Readable } from 'node:stream';
import { urlToHttpOptions } from 'node:url';
import type * as Zlib from 'node:zlib';
import { type ByteSource, NodeBytes, WebBytes } from './byte-source.js';
import { assertMayAsk } from './asking-permission.js';
import { leanResponse } from './lean-response.js';

/**
 * Creates a `fetch` on top of `node:http`, which is loaded with the first request and costs a
 * fraction of the global one. It sends texts and bytes, follows no redirect (the answer is the
 * redirect), reads no faster than its reader, and closes the socket when the signal is aborted. A
 * request on a kept connection that turns out to be closed, before any byte of an answer, is sent
 * once more. Node limits the headers to `--max-http-header-size`; the body of a failure ends after
 * 1 MB.
 */
export function httpFetch({ agent }: HttpFetchOptions = {}): Fetch {
  return async (input, init = {}) => {
    const target = targetOf(input, init);
    return exchange(agent ? { ...target, agent } : target, init, toResponse);
  };
}

/** The function that an SDK calls to send a request. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

export interface HttpFetchOptions {
  /**
   * The agent that holds the connections, for a proxy, a certificate or other limits. @default
   * Node's global agents
   */
  readonly agent?: Agent;
}

/** Reads the provider's id of a request from the headers of its answer. */
export function requestIdOf({ headers }: Response): string | undefined {
  return headers.get('x-request-id') ?? headers.get('request-id') ?? undefined;
}

/** Returns the bytes of a body; undefined where there is none. */
export function bytesOf(response: Response): ByteSource | undefined {
  return (
    bytesByResponse.get(response) ??
    (response.body === null ? undefined : new WebBytes(response.body))
  );
}

/**
 * The longest body of a failed answer: an error page can be endless, and the SDK reads all of it.
 */
const MOST_ERROR_BYTES = 1024 * 1024;

/** Returns the options of a decompressor that hands on what it has, however the answer ends. */
function flushing({ constants }: typeof Zlib): Zlib.ZlibOptions {
  return { flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };
}

/** The decompressors for servers that compress though the request does not ask for it. */
const DECOMPRESSORS = new Map([
  ['gzip', (zlib: typeof Zlib) => zlib.createGunzip(flushing(zlib))],
  ['x-gzip', (zlib: typeof Zlib) => zlib.createGunzip(flushing(zlib))],
  ['deflate', (zlib: typeof Zlib) => zlib.createInflate(flushing(zlib))],
  ['br', (zlib: typeof Zlib) => zlib.createBrotliDecompress()],
]);

/** The bytes of the responses made below, for readers that need no web stream around them. */
const bytesByResponse = new WeakMap<Response, NodeBytes>();

/** The global `fetch` as it was before the application could replace it. */
const nodeFetch = globalThis.fetch;

/**
 * Creates the `fetch` that a model gives to its SDK. That of the application sends every request.
 * Without one it is {@link httpFetch}, or the global one where the application has replaced it, or
 * the environment asks for a proxy; this is chosen anew for each request. Bodies come in bytes. The
 * application and the global `fetch` get them as the texts that SDKs send. Bodies of failures are
 * bounded: the SDKs read them to their end, and a hostile server's has none.
 */
export function modelFetch(own?: Fetch): Fetch {
  if (own !== undefined) return boundedTexts(own);
  return (input, init) => (isRerouted() ? globalFetch : leanFetch)(input, init);
}

const globalFetch = boundedTexts((input, init) => globalThis.fetch(input, init));

/** The {@link httpFetch} for a model, of whose failures less is read. */
const leanFetch: Fetch = async (input, init = {}) =>
  exchange(targetOf(input, init), init, toLeanResponse);

function isRerouted(): boolean {
  return process.env.NODE_USE_ENV_PROXY !== undefined || globalThis.fetch !== nodeFetch;
}

/** The address of a request, and all of it that is not its body. */
interface RequestTarget extends RequestOptions {
  readonly headers: OutgoingHttpHeaders;
}

function targetOf(input: Parameters<Fetch>[0], { method, headers }: RequestInit): RequestTarget {
  const own = headers instanceof Headers ? headers : new Headers(headers);
  // Node copies its options some times for each request: what it does not read is left out.
  const { protocol, hostname, port, path, auth } = urlToHttpOptions(
    new URL(input instanceof Request ? input.url : input),
  );
  return {
    protocol,
    hostname,
    port,
    path,
    ...(auth !== undefined && { auth }),
    ...(method !== undefined && { method }),
    headers: { 'accept-encoding': 'identity', ...Object.fromEntries(own) },
  };
}

/** Sends a request, once more where its kept connection turns out to be closed. */
function exchange(
  target: RequestTarget,
  init: RequestInit,
  toAnswer: (message: IncomingMessage) => Response,
): Promise<Response> {
  const body = bodyOf(init);
  const { signal } = init;
  const { request } = process.getBuiltinModule(
    target.protocol === 'https:' ? 'node:https' : 'node:http',
  );
  return new Promise((resolve, reject) => {
    assertMayAsk(target);
    const attempt = (onStale: (error: Error) => void): void => {
      if (signal?.aborted) {
        reject(abortReason(signal));
        return;
      }
      const sent = request(target);
      if (signal) destroyOnAbort(sent, signal);
      sent.end(body);
      onAnswer(sent, {
        taken: (message) => resolve(toAnswer(message)),
        failed: reject,
        stale: onStale,
        signal,
      });
    };
    attempt(() => attempt((error) => reject(failed(error))));
  });
}

function bodyOf({ body }: NonNullable<Parameters<Fetch>[1]>): string | Uint8Array | undefined {
  if (body === null || body === undefined) return undefined;
  if (typeof body === 'string' || body instanceof Uint8Array) return body;
  throw new TypeError('httpFetch sends texts and bytes only.');
}

function destroyOnAbort(sent: ClientRequest, signal: AbortSignal): void {
  let current: ClientRequest | IncomingMessage = sent;
  const abort = (): void => void current.destroy(abortReason(signal));
  signal.addEventListener('abort', abort, { once: true });
  sent.once('response', (message) => (current = message));
  sent.once('close', () => signal.removeEventListener('abort', abort));
}

/**
 * The ends of a request: an answer, a failure, and a connection that the server had given up while
 * nothing was sent over it.
 */
interface RequestEnds {
  readonly taken: (message: IncomingMessage) => void;
  readonly failed: (error: Error) => void;
  readonly stale: (error: Error) => void;
  readonly signal: AbortSignal | null | undefined;
}

function onAnswer(sent: ClientRequest, ends: RequestEnds): void {
  const { signal } = ends;
  // A server that switches protocols closes the request without an error.
  const close = (): void => ends.failed(failed(new Error('other side closed')));
  sent.once('close', close);
  const isStale = staleness(sent);
  sent.on('error', (error) => {
    if (signal?.aborted) ends.failed(abortReason(signal));
    else if (isStale(error)) {
      sent.off('close', close);
      ends.stale(error);
    } else ends.failed(failed(error));
  });
  sent.once('response', (message) => {
    sent.off('close', close);
    try {
      ends.taken(message);
    } catch (error) {
      ends.failed(error instanceof Error ? error : failed(error));
    }
  });
}

/**
 * Tells whether a request failed on a connection that was used before, without a byte of an answer:
 * the server may have closed it before the request came.
 */
function staleness(sent: ClientRequest): (error: Error) => boolean {
  let [socket, before]: [Socket | undefined, number] = [undefined, 0];
  sent.once('socket', (used) => {
    [socket, before] = [used, used.bytesRead];
  });
  return (error) =>
    sent.reusedSocket && socket?.bytesRead === before && 'code' in error && STALE.has(error.code);
}

const STALE = new Set<unknown>(['ECONNRESET', 'EPIPE']);

const toResponse = (message: IncomingMessage): Response => respond(message, MOST_ERROR_BYTES);
const toLeanResponse = (message: IncomingMessage): Response => respond(message, MOST_BYTES);

/**
 * Makes the response of an answer.
 *
 * @param most the number of bytes after which the body of a failed answer ends
 */
function respond(message: IncomingMessage, most: number): Response {
  try {
    const { statusCode: status = 0, statusMessage: statusText } = message;
    const bytes = new NodeBytes(decompressed(message), isOk(status) ? Infinity : most);
    const init = { status, statusText, headers: headersOf(message) };
    const response = HAVE_NO_BODY.has(status)
      ? new Response(null, init)
      : leanResponse(bytes, init);
    bytesByResponse.set(response, bytes);
    return response;
  } catch (error) {
    message.destroy();
    throw failed(error);
  }
}

const HAVE_NO_BODY = new Set([204, 205, 304]);

/** Tells whether the status of an answer is that of a success. */
function isOk(status = 0): boolean {
  return status >= 200 && status < 300;
}

function decompressed(message: IncomingMessage): Readable {
  const encoding = message.headers['content-encoding']?.toLowerCase() ?? 'identity';
  if (encoding === 'identity' || encoding === '') return message;
  const decompressor = DECOMPRESSORS.get(encoding)?.(process.getBuiltinModule('node:zlib'));
  if (decompressor === undefined) throw new Error(`the answer is encoded as "${encoding}"`);
  return pipeline(message, decompressor, () => undefined);
}

function headersOf({ rawHeaders }: IncomingMessage): [string, string][] {
  return Array.from({ length: rawHeaders.length / 2 }, (_, index) => [
    rawHeaders[2 * index] ?? '',
    rawHeaders[2 * index + 1] ?? '',
  ]);
}

/** Makes the error that the global `fetch` would throw. */
function failed(cause: unknown): TypeError {
  return new TypeError('fetch failed', { cause });
}

function abortReason(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error
    ? reason
    : new DOMException('This operation was aborted', 'AbortError');
}

/** The number of bytes of a failed answer that are read: the error stands at its beginning. */
const MOST_BYTES = 64 * 1024;

/** Hands bodies on as texts, and bounds those of failed answers. */
function boundedTexts(fetch: Fetch): Fetch {
  return async (url, init) => {
    const body = init?.body;
    const text = body instanceof Uint8Array ? Buffer.from(body).toString() : body;
    const response = await fetch(url, init && { ...init, body: text ?? null });
    if (response.ok || response.body === null) return response;
    return new Response(firstOf(response.body), response);
  };
}

function firstOf(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  let left = MOST_BYTES;
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        controller.enqueue(bytes.subarray(0, left));
        left -= bytes.length;
        if (left <= 0) controller.terminate();
      },
    }),
  );
}
