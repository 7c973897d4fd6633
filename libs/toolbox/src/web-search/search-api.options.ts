import { ConfigurationError } from '@toolloop/core';

/** How to reach the API of a search engine. */
export interface SearchApiOptions {
  /** @default the variable of the environment that the adapter names */
  readonly apiKey?: string;
  /** @default the provider's own */
  readonly baseURL?: string;
  /** Replaces the global `fetch`: for a proxy, a recording, a test. */
  readonly fetch?: typeof globalThis.fetch;
  /** Milliseconds for one search. @default 15_000 */
  readonly timeoutMs?: number;
}

/** What an adapter knows of its provider. */
export interface SearchProvider {
  /** The adapter's class, for findings. */
  readonly name: string;
  readonly baseURL: string;
  /** The variable of the environment that holds the key. */
  readonly keyVariable: string;
}

/** The key of a provider. Throws a `ConfigurationError` where there is none, so that the app does not start without it. */
export function apiKeyOf({ name, keyVariable }: SearchProvider, { apiKey }: SearchApiOptions): string {
  const key = (apiKey ?? process.env[keyVariable])?.trim();
  if (!key) throw finding(name, 'there is no API key.', `Set ${keyVariable} or pass { apiKey }.`);
  if (/[^\x21-\x7e]/.test(key)) throw finding(name, 'the API key has characters that no key has.', 'Copy it again, without line breaks.');
  return key;
}

/** The address of a provider, ending in a slash. Throws a `ConfigurationError` that does not repeat it. */
export function baseURLOf({ name, baseURL: standard }: SearchProvider, { baseURL = standard }: SearchApiOptions): URL {
  const url = URL.parse(baseURL.endsWith('/') ? baseURL : `${baseURL}/`);
  const isHttp = url?.protocol === 'https:' || url?.protocol === 'http:';
  if (url && isHttp && !url.username && !url.password) return url;
  throw finding(name, 'the base URL cannot be used.', 'Give an http or https address without a user name and password.');
}

function finding(at: string, problem: string, remedy: string): ConfigurationError {
  return new ConfigurationError([{ at, problem, remedy }]);
}
