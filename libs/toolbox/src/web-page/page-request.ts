import { get as getHttp, type IncomingMessage } from 'node:http';
import { get as getHttps } from 'node:https';
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
export function connectionFailure(error: unknown): ToolError {
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
