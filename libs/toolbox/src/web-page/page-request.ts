import { get as getHttp, type IncomingMessage } from 'node:http';
import { get as getHttps } from 'node:https';
import { pipeline, type Duplex, type Readable } from 'node:stream';
import { MIMEType } from 'node:util';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { ToolError } from '@toolloop/core';
import type { EgressGuard } from '@toolloop/protocol/egress';

/** The guard and the settings of a request. */
export interface PageRequest {
  readonly guard: Pick<EgressGuard, 'check' | 'lookup'>;
  readonly signal: AbortSignal;
  readonly userAgent: string;
  /** Called with every address before it is requested. */
  readonly onRequest: (url: URL) => void;
}

/** The first answer that is not a redirect, with its address and its unread body. */
export interface PageResponse {
  readonly url: URL;
  readonly message: IncomingMessage;
}

const MAX_REDIRECTS = 5;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Requests an address and follows at most 5 redirects, each checked like the first.
 *
 * @throws ToolError if the page cannot be fetched
 */
export async function requestPage(address: string, request: PageRequest): Promise<PageResponse> {
  let url = request.guard.check(address);
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects += 1) {
    request.onRequest(url);
    const message = await get(url, request);
    const location = REDIRECTS.has(message.statusCode ?? 0) ? message.headers.location : undefined;
    if (location === undefined) return { url, message: withBody(message) };
    message.destroy();
    url = request.guard.check(location, url);
  }
  throw new ToolError(
    `The address redirects more than ${MAX_REDIRECTS} times. Use another source.`,
  );
}

/**
 * Sends a request without a shared agent: a kept connection would skip the guard's lookup, and the
 * environment's proxy would too.
 */
async function get(url: URL, { guard, signal, userAgent }: PageRequest): Promise<IncomingMessage> {
  const headers = {
    accept: 'text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.9,*/*;q=0.1',
    'accept-encoding': 'gzip, br',
    'user-agent': userAgent,
  };
  const ask = url.protocol === 'https:' ? getHttps : getHttp;
  try {
    return await new Promise<IncomingMessage>((resolve, reject) => {
      ask(url, { agent: false, lookup: guard.lookup, signal, headers }, resolve).on(
        'error',
        reject,
      );
    });
  } catch (error) {
    signal.throwIfAborted();
    throw connectionFailure(error);
  }
}

function withBody(message: IncomingMessage): IncomingMessage {
  const status = message.statusCode ?? 0;
  if (status >= 200 && status < 300) return message;
  message.destroy();
  const retryable = status === 429 || status >= 500;
  const advice = retryable
    ? 'Try again later, or use another source.'
    : 'Check the address, or use another source.';
  throw new ToolError(`The server answered with status ${status}. ${advice}`, { retryable });
}

/**
 * Makes the error of a failed connection: a refusal of the guard as it is, any other error by its
 * code alone.
 */
function connectionFailure(error: unknown): ToolError {
  if (error instanceof ToolError) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ENOTFOUND')
    return new ToolError('There is no such host. Check its spelling.', { cause: error });
  if (/CERT|SELF_SIGNED|ERR_TLS|ERR_SSL/.test(code))
    return new ToolError('The server has no valid certificate. Use another source.', {
      cause: error,
    });
  return new ToolError('The connection failed. Try again later, or use another source.', {
    retryable: true,
    cause: error,
  });
}

/** The body of a page, cut at a limit. */
export interface PageBody {
  readonly bytes: Buffer;
  /** `true` if the page is longer. */
  readonly truncated: boolean;
}

/**
 * Reads at most `limit` bytes of a body and closes the connection. Bytes are counted after
 * decompression, a small piece at a time, so that a few kilobytes cannot become gigabytes.
 *
 * @throws ToolError if the body is broken, or compressed in an unknown way
 */
export async function readBody(message: IncomingMessage, limit: number): Promise<PageBody> {
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of uncompressed(message)) {
      if (!Buffer.isBuffer(part)) continue;
      parts.push(part);
      size += part.length;
      if (size > limit) break;
    }
  } catch (error) {
    throw connectionFailure(error);
  } finally {
    message.destroy();
  }
  return { bytes: Buffer.concat(parts).subarray(0, limit), truncated: size > limit };
}

function uncompressed(message: IncomingMessage): Readable {
  const encoding = message.headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  if (encoding === 'identity' || encoding === '') return message;
  return pipeline(message, decompressor(encoding), () => undefined); // errors reach the reader
}

function decompressor(encoding: string): Duplex {
  switch (encoding) {
    case 'gzip':
    case 'x-gzip':
      return createGunzip();
    case 'deflate':
      return createInflate();
    case 'br':
      return createBrotliDecompress();
    default:
      throw new ToolError(
        'The page is compressed in a way that cannot be read. Use another source.',
      );
  }
}

/** The type of a page, markup or plain text, and the charset of its header. */
export interface PageContent {
  readonly kind: 'html' | 'text';
  readonly charset: string | undefined;
}

const HTML: ReadonlySet<string> = new Set(['text/html', 'application/xhtml+xml']);
const TEXT = /^text\/|^application\/(json|xml|javascript|yaml)$|\+(json|xml)$/;

/**
 * Reads a `content-type` header.
 *
 * @throws ToolError if the type is not text
 */
export function contentOf(header: string | undefined): PageContent {
  const type = parsed(header);
  if (!type)
    throw new ToolError(
      'The page does not say what it contains, so it cannot be read. Use another source.',
    );
  const charset = type.params.get('charset') ?? undefined;
  if (HTML.has(type.essence)) return { kind: 'html', charset };
  if (TEXT.test(type.essence)) return { kind: 'text', charset };
  throw new ToolError(
    `The page is ${type.essence}. Only HTML, text, JSON and XML can be read. Look for a page that has it as text.`,
  );
}

function parsed(header: string | undefined): MIMEType | undefined {
  try {
    return header === undefined ? undefined : new MIMEType(header);
  } catch {
    return undefined;
  }
}

/** The number of bytes in which a document names its own charset. */
const DECLARED_CHARSET =
  /<meta[^>]{0,200}?charset\s{0,8}=\s{0,8}["']?([\w-]{1,40})|<\?xml[^>]{0,100}?encoding\s{0,8}=\s{0,8}["']([\w-]{1,40})/i;

/**
 * Decodes as browsers do: by byte order mark, header, the document's own charset, else UTF-8.
 * Invalid bytes become U+FFFD.
 */
export function decode(bytes: Buffer, charset: string | undefined): string {
  const [, meta, xml] = DECLARED_CHARSET.exec(bytes.toString('latin1', 0, 1024)) ?? [];
  const declared = meta ?? xml;
  // A document that could be read this far is no UTF-16, whatever it says.
  const own = declared !== undefined && /^utf-?16/i.test(declared) ? 'utf-8' : declared;
  const label = byteOrderMark(bytes) ?? charset ?? own ?? 'utf-8';
  return (decoderFor(label) ?? new TextDecoder()).decode(bytes);
}

function byteOrderMark(bytes: Buffer): string | undefined {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return 'utf-8';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  return bytes[0] === 0xff && bytes[1] === 0xfe ? 'utf-16le' : undefined;
}

function decoderFor(label: string): TextDecoder | undefined {
  try {
    return new TextDecoder(label);
  } catch {
    return undefined;
  }
}
