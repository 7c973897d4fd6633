import type { Agent, ClientRequest, IncomingMessage, OutgoingHttpHeaders, RequestOptions } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline, type Readable } from 'node:stream';
import { urlToHttpOptions } from 'node:url';
import type * as Zlib from 'node:zlib';
import { type ByteSource, NodeBytes, WebBytes } from './byte-source.js';
import { assertMayAsk } from './from-failure.js';

/** The function that an SDK calls to send a request. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

export interface HttpFetchOptions {
  /** The agent that holds the connections, for a proxy, a certificate or other limits. @default Node's global agents */
  readonly agent?: Agent;
}

/** The longest body of a failed answer: an error page can be endless, and the SDK reads all of it. */
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

/** Reads the provider's id of a request from the headers of its answer. */
export function requestIdOf({ headers }: Response): string | undefined {
  return headers.get('x-request-id') ?? headers.get('request-id') ?? undefined;
}

/** Returns the bytes of a body; undefined where there is none. */
export function bytesOf(response: Response): ByteSource | undefined {
  return bytesByResponse.get(response) ?? (response.body === null ? undefined : new WebBytes(response.body));
}

/**
 * Creates a `fetch` on top of `node:http`, which is loaded with the first request and costs a fraction of the global one. It sends texts and bytes, follows no redirect (the answer is the
 * redirect), reads no faster than its reader, and closes the socket when the signal is aborted. A request on a kept connection that turns out to be closed, before any byte of an
 * answer, is sent once more. Node limits the headers to `--max-http-header-size`; the body of a failure ends after 1 MB.
 */
export function httpFetch({ agent }: HttpFetchOptions = {}): Fetch {
  return async (input, init = {}) => {
    const target = targetOf(input, init);
    return exchange(agent ? { ...target, agent } : target, bodyOf(init), init.signal, toResponse);
  };
}

/** The address of a request, and all of it that is not its body. */
interface RequestTarget extends RequestOptions {
  readonly headers: OutgoingHttpHeaders;
}

/** A body, or its pieces: what is kept is not joined for a request. */
type Body = string | Uint8Array | readonly Uint8Array[] | undefined;

function targetOf(input: Parameters<Fetch>[0], { method, headers }: RequestInit): RequestTarget {
  const own = headers instanceof Headers ? headers : new Headers(headers);
  // Node copies its options some times for each request: what it does not read is left out.
  const { protocol, hostname, port, path, auth } = urlToHttpOptions(new URL(input instanceof Request ? input.url : input));
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

/** Sends a request, once more where its kept connection turns out to be closed, and resolves to what is read of the beginning of its answer. */
function exchange<Result>(
  target: RequestTarget,
  body: Body,
  signal: AbortSignal | null | undefined,
  read: (message: IncomingMessage) => Result | Promise<Result>,
): Promise<Result> {
  const { request } = process.getBuiltinModule(target.protocol === 'https:' ? 'node:https' : 'node:http');
  return new Promise((resolve, reject) => {
    assertMayAsk(target);
    const attempt = (onStale: (error: Error) => void): void => {
      if (signal?.aborted) {
        reject(abortReason(signal));
        return;
      }
      const sent = request(target);
      if (signal) destroyOnAbort(sent, signal);
      // Node writes what comes before the connection in one go.
      if (Array.isArray(body)) for (const piece of body) sent.write(piece);
      sent.end(Array.isArray(body) ? undefined : body);
      onAnswer(sent, { taken: (message) => resolve(read(message)), failed: reject, stale: onStale, signal });
    };
    attempt(() => attempt((error) => reject(failed(error))));
  });
}

/** The answer to a repeated request, its body unread. */
export class HttpAnswer {
  readonly status: number;
  readonly requestId: string | undefined;
  readonly bytes: ByteSource;

  /** @throws TypeError for a body that is encoded in a way that is not known */
  constructor(private readonly message: IncomingMessage) {
    const { statusCode = 0, headers } = message;
    const id = headers['x-request-id'] ?? headers['request-id'];
    this.status = statusCode;
    this.requestId = Array.isArray(id) ? id.join(', ') : id;
    this.bytes = bytesIn(message);
  }

  /** The headers, which are made when they are asked for: a good answer's are not. */
  get headers(): Headers {
    return new Headers(headersOf(this.message));
  }
}

/**
 * The requests of one model, which differ in their bodies alone. The first goes through the provider's SDK, which knows the address, the key and the headers; each further
 * one repeats those over `node:http`: to make a request anew costs an SDK a fifth of a whole step. Where the application or the environment have
 * rerouted the global `fetch`, all of them go through the SDK and that `fetch`.
 */
export class RepeatedRequests {
  private target: RequestTarget | undefined;

  /** The `fetch` for the SDK, which remembers what it is asked for. */
  readonly fetch: Fetch = async (input, init = {}) => {
    if (isRerouted()) return globalThis.fetch(input, init);
    const target = targetOf(input, init);
    this.target ??= target;
    return exchange(target, bodyOf(init), init.signal, toResponse);
  };

  /** True once there is a request to repeat. */
  get areKnown(): boolean {
    return this.target !== undefined && !isReplaced();
  }

  /** @throws {TypeError} Where no answer comes, as of `fetch`; {Error} before a first request was sent; and what `read` throws. */
  send<Result>(body: readonly Uint8Array[], signal: AbortSignal, read: (answer: HttpAnswer) => Result | Promise<Result>): Promise<Result> {
    const { target } = this;
    if (target === undefined) return Promise.reject(new Error('There is no request to repeat yet.'));
    const length = body.reduce((sum, piece) => sum + piece.length, 0);
    return exchange({ ...target, headers: { ...target.headers, 'content-length': length } }, body, signal, (message) =>
      read(new HttpAnswer(message)),
    );
  }
}

/** Reads the beginning of a failed answer, in which its error stands, and discards the rest. */
export async function failureText({ bytes }: HttpAnswer): Promise<string> {
  const parts: Uint8Array[] = [];
  for (let left = MOST_BYTES; left > 0;) {
    const part = await bytes.read();
    if (part === undefined) break;
    parts.push(part.subarray(0, left));
    left -= part.length;
  }
  bytes.close();
  return new TextDecoder().decode(Buffer.concat(parts));
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

/** The ends of a request: an answer, a failure, and a connection that the server had given up while nothing was sent over it. */
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

/** Tells whether a request failed on a connection that was used before, without a byte of an answer: the server may have closed it before the request came. */
function staleness(sent: ClientRequest): (error: Error) => boolean {
  let [socket, before]: [Socket | undefined, number] = [undefined, 0];
  sent.once('socket', (used) => {
    [socket, before] = [used, used.bytesRead];
  });
  return (error) => sent.reusedSocket && socket?.bytesRead === before && 'code' in error && STALE.has(error.code);
}

const STALE = new Set<unknown>(['ECONNRESET', 'EPIPE']);

function toResponse(message: IncomingMessage): Response {
  const bytes = bytesIn(message);
  try {
    const { statusCode: status = 0, statusMessage: statusText } = message;
    const body = status === 204 || status === 205 || status === 304 ? null : toWebStream(bytes);
    const response = new Response(body, { status, statusText, headers: headersOf(message) });
    bytesByResponse.set(response, bytes);
    return response;
  } catch (error) {
    message.destroy();
    throw failed(error);
  }
}

/** The bytes of an answer, of a failed one no more than an error needs. */
function bytesIn(message: IncomingMessage): NodeBytes {
  try {
    return new NodeBytes(decompressed(message), isOk(message.statusCode) ? Infinity : MOST_ERROR_BYTES);
  } catch (error) {
    message.destroy();
    throw failed(error);
  }
}

/** Tells whether the status of an answer is that of a success. */
export function isOk(status = 0): boolean {
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
  return Array.from({ length: rawHeaders.length / 2 }, (_, index) => [rawHeaders[2 * index] ?? '', rawHeaders[2 * index + 1] ?? '']);
}

function toWebStream(bytes: NodeBytes): ReadableStream<Uint8Array> {
  return new ReadableStream(
    {
      async pull(controller) {
        const chunk = await bytes.read();
        if (chunk === undefined) controller.close();
        else controller.enqueue(chunk);
      },
      cancel: () => bytes.close(),
    },
    { highWaterMark: 0 },
  );
}

/** Makes the error that the global `fetch` would throw. */
function failed(cause: unknown): TypeError {
  return new TypeError('fetch failed', { cause });
}

function abortReason(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : new DOMException('This operation was aborted', 'AbortError');
}

/** The global `fetch` as it was before the application could replace it. */
const nodeFetch = globalThis.fetch;

/** The symbols under which undici keeps the dispatcher that the global `fetch` sends with. */
const DISPATCHERS = ['undici.globalDispatcher.1', 'undici.globalDispatcher.2'].map((name) => Symbol.for(name));

/** Tells whether the application or the environment lead the requests of the global `fetch` elsewhere, for instance through a proxy. */
function isRerouted(): boolean {
  return process.env.NODE_USE_ENV_PROXY !== undefined || isReplaced();
}

/** Tells whether the application has replaced the global `fetch` or what it sends with. Node reads its environment once, so that requests behind the first need not. */
function isReplaced(): boolean {
  return globalThis.fetch !== nodeFetch || DISPATCHERS.some(isForeign);
}

function isForeign(symbol: symbol): boolean {
  const dispatcher: unknown = Reflect.get(globalThis, symbol);
  return typeof dispatcher === 'object' && dispatcher !== null && dispatcher.constructor.name !== 'Agent';
}

/** The number of bytes of a failed answer that are read: the error stands at its beginning. */
const MOST_BYTES = 64 * 1024;

/** Bounds the bodies of failed answers: the SDKs read them to their end, and a hostile server's has none. */
export function boundedErrors(fetch: Fetch): Fetch {
  return async (url, init) => {
    const response = await fetch(url, init);
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
