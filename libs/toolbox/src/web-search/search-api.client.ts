import { ToolError } from '@toolloop/core';
import { withinTime } from '../within-time.js';
import { apiKeyOf, baseURLOf, type SearchApiOptions, type SearchProvider } from './search-api.options.js';

const MAX_BYTES = 4_000_000;

/**
 * Asks a search API for JSON. Whatever goes wrong, the error is made here, of fixed text: neither the key, nor what the provider said, nor the
 * underlying error goes into it, since a proxy or an injected `fetch` may put the key into either.
 */
export class SearchApiClient {
  readonly #apiKey: string;
  readonly #baseURL: URL;
  readonly #fetch: typeof globalThis.fetch;
  readonly #timeoutMs: number;

  /** Throws a `ConfigurationError` without a key, or with a base URL that cannot be used. */
  constructor(provider: SearchProvider, options: SearchApiOptions) {
    this.#apiKey = apiKeyOf(provider, options);
    this.#baseURL = baseURLOf(provider, options);
    this.#fetch = options.fetch ?? globalThis.fetch;
    this.#timeoutMs = options.timeoutMs ?? 15_000;
  }

  /** Rejects with a `ToolError`, or with the reason of an aborted signal. */
  async post(path: string, body: object, signal: AbortSignal): Promise<unknown> {
    const timeUp = 'The web search took too long. Try again later.';
    return withinTime({ ms: this.#timeoutMs, signal, timeUp }, async (either) => {
      try {
        const response = await this.#send(path, body, either);
        if (!response.ok) throw await refusal(response);
        return await jsonOf(response);
      } catch (error) {
        if (either.aborted || error instanceof ToolError) throw error;
        throw new ToolError('The web search cannot be reached. Try again later, or answer without it.', { retryable: true });
      }
    });
  }

  #send(path: string, body: object, signal: AbortSignal): Promise<Response> {
    const fetch = this.#fetch;
    return fetch(new URL(path, this.#baseURL), {
      method: 'POST',
      headers: { authorization: `Bearer ${this.#apiKey}`, 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify(body),
      redirect: 'error', // the key goes nowhere else
      signal,
    });
  }
}

async function refusal(response: Response): Promise<ToolError> {
  await response.body?.cancel();
  const { status } = response;
  if (status === 401 || status === 403)
    return new ToolError('The web search does not accept the key of this application. Answer without it, and say that it is not set up.');
  if (status === 402 || status === 432 || status === 433)
    // the latter two are Tavily's
    return new ToolError('The web search quota of this application is used up. Answer without it, and say so.');
  if (status === 429) return new ToolError('There were too many web searches. Wait before the next one.', { retryable: true });
  if (status >= 500) return new ToolError('The web search is out of order. Try again later, or answer without it.', { retryable: true });
  return new ToolError(`The web search refused the query (status ${status}). Put it in other words, and make it shorter.`);
}

async function jsonOf(response: Response): Promise<unknown> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    parts.push(part);
    size += part.length;
    if (size > MAX_BYTES) throw unreadable();
  }
  try {
    const json: unknown = JSON.parse(Buffer.concat(parts).toString());
    return json;
  } catch {
    throw unreadable();
  }
}

function unreadable(): ToolError {
  return new ToolError('The web search gave an answer that cannot be read. Try again later, or answer without it.', { retryable: true });
}
