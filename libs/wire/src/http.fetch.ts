import { request as requestHttp, type Agent, type ClientRequest, type IncomingMessage } from 'node:http';
import { request as requestHttps } from 'node:https';
import { pipeline, type Readable } from 'node:stream';
import { constants, createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { WebBytes, type ByteSource } from './byte-source.js';
import { NodeBytes } from './node.bytes.js';

/** What an SDK calls to send a request. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

export interface HttpFetchOptions {
  /** Keeps the connections: for a proxy, a certificate, other limits. @default Node's global agents */
  readonly agent?: Agent;
}

/** An error page can be endless, and the SDK reads all of it. */
const MOST_ERROR_BYTES = 1024 * 1024;

const FLUSH = { flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };

/** For servers that compress unasked. */
const DECOMPRESSORS = new Map([
  ['gzip', () => createGunzip(FLUSH)],
  ['x-gzip', () => createGunzip(FLUSH)],
  ['deflate', () => createInflate(FLUSH)],
  ['br', () => createBrotliDecompress()],
]);

/** The bytes of the answers below, for who can do without a web stream round them. */
const bytesByResponse = new WeakMap<Response, NodeBytes>();

/** The bytes of a body; undefined where there is none. */
export function bytesOf(response: Response): ByteSource | undefined {
  return bytesByResponse.get(response) ?? (response.body === null ? undefined : new WebBytes(response.body));
}

/**
 * A `fetch` straight on `node:http`, which costs a fraction of the global one. It sends texts and bytes, follows no redirect (the answer is the
 * redirect), reads no faster than its reader, and closes the socket when the signal is aborted. Node limits the headers to `--max-http-header-size`; the
 * body of a failure ends after 1 MB.
 */
export function httpFetch({ agent }: HttpFetchOptions = {}): Fetch {
  return async (input, init = {}) => {
    const { method, signal } = init;
    if (signal?.aborted) throw abortReason(signal);
    const body = bodyOf(init);
    const url = new URL(input instanceof Request ? input.url : input);
    const own = init.headers instanceof Headers ? init.headers : new Headers(init.headers);
    const headers = { 'accept-encoding': 'identity', ...Object.fromEntries(own) };
    const send = url.protocol === 'https:' ? requestHttps : requestHttp;
    const sent = send(url, { method, headers, agent });
    if (signal) destroyOnAbort(sent, signal);
    sent.end(body);
    return toResponse(await answerTo(sent, signal));
  };
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

function answerTo(sent: ClientRequest, signal: AbortSignal | null | undefined): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    // A server that switches protocols closes the request without an error.
    const close = (): void => reject(failed(new Error('other side closed')));
    sent.once('close', close);
    sent.on('error', (error) => reject(signal?.aborted ? abortReason(signal) : failed(error)));
    sent.once('response', (message) => {
      sent.off('close', close);
      resolve(message);
    });
  });
}

function toResponse(message: IncomingMessage): Response {
  try {
    const { statusCode: status = 0, statusMessage: statusText } = message;
    const isOk = status >= 200 && status < 300;
    const bytes = new NodeBytes(decompressed(message), isOk ? Infinity : MOST_ERROR_BYTES);
    const body = status === 204 || status === 205 || status === 304 ? null : toWebStream(bytes);
    const response = new Response(body, { status, statusText, headers: headersOf(message) });
    bytesByResponse.set(response, bytes);
    return response;
  } catch (error) {
    message.destroy();
    throw failed(error);
  }
}

function decompressed(message: IncomingMessage): Readable {
  const encoding = message.headers['content-encoding']?.toLowerCase() ?? 'identity';
  if (encoding === 'identity' || encoding === '') return message;
  const decompressor = DECOMPRESSORS.get(encoding)?.();
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

/** As the global `fetch` would say it. */
function failed(cause: unknown): TypeError {
  return new TypeError('fetch failed', { cause });
}

function abortReason(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : new DOMException('This operation was aborted', 'AbortError');
}
