import { get as getHttp, type IncomingMessage } from 'node:http';
import { get as getHttps } from 'node:https';
import { ToolError } from '@toolloop/core';
import type { EgressGuard } from './egress.guard.js';

/** What a request needs besides its address. */
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
export function connectionFailure(error: unknown): ToolError {
  if (error instanceof ToolError) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ENOTFOUND') return new ToolError('There is no such host. Check its spelling.', { cause: error });
  if (/CERT|SELF_SIGNED|ERR_TLS|ERR_SSL/.test(code))
    return new ToolError('The server has no valid certificate. Use another source.', { cause: error });
  return new ToolError('The connection failed. Try again later, or use another source.', { retryable: true, cause: error });
}
