import { get as getHttp, type IncomingMessage } from 'node:http';
import { get as getHttps } from 'node:https';
import { pipeline, type Duplex, type Readable } from 'node:stream';
import { MIMEType } from 'node:util';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { ToolError } from '@toolloop/core';
import type { EgressGuard } from './egress-guard.js';

/** The guard and the settings of a request. */
export interface PageRequest {
  readonly guard: Pick<EgressGuard, 'check' | 'lookup'>;
  readonly signal: AbortSignal;
  readonly userAgent: string;
  /** Told of every address before it is asked. */
  readonly onRequest: (url: URL) => void;
}

/** The answer that is no redirect, its body unread, and where it came from. */
export interface PageResponse {
  readonly url: URL;
  readonly message: IncomingMessage;
}

const MAX_REDIRECTS = 5;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** Gets an address, following at most 5 redirects, each checked like the first. Throws a `ToolError` when the page cannot be had. */
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
  throw new ToolError(`The address redirects more than ${MAX_REDIRECTS} times. Use another source.`);
}

/** No shared agent: a kept connection would skip the guard's lookup, and the environment's proxy would too. */
async function get(url: URL, { guard, signal, userAgent }: PageRequest): Promise<IncomingMessage> {
  const headers = {
    accept: 'text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.9,*/*;q=0.1',
    'accept-encoding': 'gzip, br',
    'user-agent': userAgent,
  };
  const ask = url.protocol === 'https:' ? getHttps : getHttp;
  try {
    return await new Promise<IncomingMessage>((resolve, reject) => {
      ask(url, { agent: false, lookup: guard.lookup, signal, headers }, resolve).on('error', reject);
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
  const advice = retryable ? 'Try again later, or use another source.' : 'Check the address, or use another source.';
  throw new ToolError(`The server answered with status ${status}. ${advice}`, { retryable });
}

/** The guard's own refusals pass; anything else is told by its code alone. */
function connectionFailure(error: unknown): ToolError {
  if (error instanceof ToolError) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ENOTFOUND') return new ToolError('There is no such host. Check its spelling.', { cause: error });
  if (/CERT|SELF_SIGNED|ERR_TLS|ERR_SSL/.test(code))
    return new ToolError('The server has no valid certificate. Use another source.', { cause: error });
  return new ToolError('The connection failed. Try again later, or use another source.', { retryable: true, cause: error });
}

/** The beginning of a page, or all of it. */
export interface PageBody {
  readonly bytes: Buffer;
  /** True where the page is longer. */
  readonly truncated: boolean;
}

/**
 * Reads at most `limit` bytes of a body and hangs up. The bytes counted are those after decompression, a small piece at a time, so that a few
 * kilobytes cannot become gigabytes. Throws a `ToolError` when the body is broken or compressed in a way that is not known.
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
      throw new ToolError('The page is compressed in a way that cannot be read. Use another source.');
  }
}

/** The kind of a page, a document with tags or plain text, and the charset that its header names. */
export interface PageContent {
  readonly kind: 'html' | 'text';
  readonly charset: string | undefined;
}

const HTML: ReadonlySet<string> = new Set(['text/html', 'application/xhtml+xml']);
const TEXT = /^text\/|^application\/(json|xml|javascript|yaml)$|\+(json|xml)$/;

/** Reads a `content-type` header. Throws a `ToolError` for what is no text. */
export function contentOf(header: string | undefined): PageContent {
  const type = parsed(header);
  if (!type) throw new ToolError('The page does not say what it contains, so it cannot be read. Use another source.');
  const charset = type.params.get('charset') ?? undefined;
  if (HTML.has(type.essence)) return { kind: 'html', charset };
  if (TEXT.test(type.essence)) return { kind: 'text', charset };
  throw new ToolError(`The page is ${type.essence}. Only HTML, text, JSON and XML can be read. Look for a page that has it as text.`);
}

function parsed(header: string | undefined): MIMEType | undefined {
  try {
    return header === undefined ? undefined : new MIMEType(header);
  } catch {
    return undefined;
  }
}

/** A document that names its own charset does so in its first kilobyte. */
const DECLARED_CHARSET =
  /<meta[^>]{0,200}?charset\s{0,8}=\s{0,8}["']?([\w-]{1,40})|<\?xml[^>]{0,100}?encoding\s{0,8}=\s{0,8}["']([\w-]{1,40})/i;

/** Decodes as browsers do: byte order mark, header, the document's own word, UTF-8. Bytes that fit no character become U+FFFD. */
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
