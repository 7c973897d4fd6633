import { ConfigurationError, ToolError, ToolField } from '@toolloop/core';
import { type RawToolDeclaration } from '@toolloop/core/catalog';
import { Expose } from 'class-transformer';
import { IsInt, IsOptional, IsString, Max, MaxLength, Min, MinLength } from 'class-validator';
import { withinTime, type CallContext } from './call-context.js';

/** One page that a search engine found. */
export class SearchHit {
  @Expose() readonly title!: string;
  @Expose() readonly url!: string;
  @Expose() readonly snippet!: string;
  /** The date as the engine writes it, usually in ISO 8601. */
  @Expose() readonly publishedAt?: string;
}

const DEFAULT_HITS = 5;
const MAX_HITS = 20;

/** The input of `web__search`. */
export class WebSearchInput {
  @ToolField({
    description: 'What to search for, as you would type it into a search engine.',
    example: 'NestJS 12 release notes',
  })
  @IsString()
  @MinLength(1)
  @MaxLength(400)
  readonly query!: string;

  @ToolField({ description: `How many pages to find at most. Default: ${DEFAULT_HITS}.` })
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(MAX_HITS)
  readonly limit?: number;
}

/**
 * Searches the web with the given engine. A query goes to a third party, hence `egress`.
 *
 * @example
 * ToolLoopModule.forRoot({
 *   model,
 *   tools: [rawTool(WebSearch, { options: { engine: new TavilySearch() } })],
 * });
 */
export class WebSearch {
  static readonly tool: RawToolDeclaration<WebSearchInput> = {
    id: 'web__search',
    description: 'Searches the web. Gives titles, addresses and snippets of pages, best first.',
    effect: 'read_only',
    labels: { egress: true, returns: 'untrusted', reads: 'public' },
    input: WebSearchInput,
    output: [SearchHit],
  };

  private readonly engine: SearchEngine;

  constructor({ engine }: WebSearchOptions) {
    this.engine = engine;
  }

  /**
   * Searches the web.
   *
   * @throws ToolError if the engine fails
   * @throws the reason of an aborted signal
   */
  async call(
    { query, limit = DEFAULT_HITS }: WebSearchInput,
    context: CallContext = {},
  ): Promise<readonly SearchHit[]> {
    const hits = await this.engine.search(
      { query, limit },
      context.signal ?? new AbortController().signal,
    );
    return hits.slice(0, limit);
  }
}

/** A query for a search engine. */
export interface SearchQuery {
  readonly query: string;
  /** The largest number of hits. */
  readonly limit: number;
}

/**
 * The port to a search engine. An implementation throws a `ToolError` whose text is for the model
 * and holds no key.
 *
 * @example
 * class IntranetSearch extends SearchEngine {
 *   search({ query, limit }: SearchQuery, signal: AbortSignal): Promise<readonly SearchHit[]> {
 *     return this.index.query(query, { limit, signal });
 *   }
 * }
 */
export abstract class SearchEngine {
  abstract search(query: SearchQuery, signal: AbortSignal): Promise<readonly SearchHit[]>;
}

/** Access to the API of a search engine. */
export interface SearchApiOptions {
  /** @default the variable of the environment that the adapter names */
  readonly apiKey?: string;
  /** @default the provider's own */
  readonly baseURL?: string;
  /**
   * The function that sends the requests, for a proxy, a recording or a test. @default the global
   * `fetch`
   */
  readonly fetch?: typeof globalThis.fetch;
  /** The milliseconds for one search. @default 15_000 */
  readonly timeoutMs?: number;
}

/**
 * Perplexity's Search API, `POST /search`: ranked pages, not an answer written by its model. The
 * key is in `PERPLEXITY_API_KEY` or an option.
 */
export class PerplexitySearch extends SearchEngine {
  readonly #client: SearchApiClient;

  /** @throws ConfigurationError without a key */
  constructor(options: SearchApiOptions = {}) {
    super();
    this.#client = new SearchApiClient(PERPLEXITY, options);
  }

  async search({ query, limit }: SearchQuery, signal: AbortSignal): Promise<SearchHit[]> {
    const answer = await this.#client.post('search', { query, max_results: limit }, signal);
    return fromSearchResults(answer, { snippet: 'snippet', publishedAt: 'date' });
  }
}

/** Tavily's search API, `POST /search`. The key is in `TAVILY_API_KEY` or an option. */
export class TavilySearch extends SearchEngine {
  readonly #client: SearchApiClient;

  /** @throws ConfigurationError without a key */
  constructor(options: SearchApiOptions = {}) {
    super();
    this.#client = new SearchApiClient(TAVILY, options);
  }

  async search({ query, limit }: SearchQuery, signal: AbortSignal): Promise<SearchHit[]> {
    const answer = await this.#client.post('search', { query, max_results: limit }, signal);
    return fromSearchResults(answer, { snippet: 'content', publishedAt: 'published_date' });
  }
}

export interface WebSearchOptions {
  readonly engine: SearchEngine;
}

/** The constants of a provider. */
interface SearchProvider {
  /** The adapter's class, for findings. */
  readonly name: string;
  readonly baseURL: string;
  /** The environment variable that holds the key. */
  readonly keyVariable: string;
}

/**
 * Reads the key of a provider.
 *
 * @throws ConfigurationError if there is none, so that the app does not start without it
 */
function readApiKey({ name, keyVariable }: SearchProvider, { apiKey }: SearchApiOptions): string {
  const key = (apiKey ?? process.env[keyVariable])?.trim();
  if (!key) throw finding(name, 'there is no API key.', `Set ${keyVariable} or pass { apiKey }.`);
  if (/[^\x21-\x7e]/.test(key))
    throw finding(
      name,
      'the API key has characters that no key can have.',
      'Copy it again, without line breaks.',
    );
  return key;
}

/**
 * Reads the address of a provider, and ends it in a slash.
 *
 * @throws ConfigurationError if it cannot be used; the message does not repeat it
 */
function readBaseURL(
  { name, baseURL: standard }: SearchProvider,
  { baseURL = standard }: SearchApiOptions,
): URL {
  const url = URL.parse(baseURL.endsWith('/') ? baseURL : `${baseURL}/`);
  const isHttp = url?.protocol === 'https:' || url?.protocol === 'http:';
  if (url && isHttp && !url.username && !url.password) return url;
  throw finding(
    name,
    'the base URL cannot be used.',
    'Give an http or https address without a user name and password.',
  );
}

function finding(at: string, problem: string, remedy: string): ConfigurationError {
  return new ConfigurationError([{ at, problem, remedy }]);
}

const MAX_BYTES = 4_000_000;

/**
 * A client of a search API that answers with JSON. Each of its errors has a fixed text: neither the
 * key, nor the provider's answer, nor the underlying error is in it, since a proxy or an injected
 * `fetch` may put the key into either.
 */
class SearchApiClient {
  readonly #apiKey: string;
  readonly #baseURL: URL;
  readonly #fetch: typeof globalThis.fetch;
  readonly #timeoutMs: number;

  /** @throws ConfigurationError without a key, or with a base URL that cannot be used */
  constructor(provider: SearchProvider, options: SearchApiOptions) {
    this.#apiKey = readApiKey(provider, options);
    this.#baseURL = readBaseURL(provider, options);
    this.#fetch = options.fetch ?? globalThis.fetch;
    this.#timeoutMs = options.timeoutMs ?? 15_000;
  }

  /** Posts a request. Rejects with a `ToolError`, or with the reason of an aborted signal. */
  async post(path: string, body: object, signal: AbortSignal): Promise<unknown> {
    const timeUp = 'The web search took too long. Try again later.';
    return withinTime({ ms: this.#timeoutMs, signal, timeUp }, async (either) => {
      try {
        const response = await this.#send(path, body, either);
        if (!response.ok) throw await refusal(response);
        return await jsonOf(response);
      } catch (error) {
        if (either.aborted || error instanceof ToolError) throw error;
        throw new ToolError(
          'The web search cannot be reached. Try again later, or answer without it.',
          { retryable: true },
        );
      }
    });
  }

  #send(path: string, body: object, signal: AbortSignal): Promise<Response> {
    const fetch = this.#fetch;
    return fetch(new URL(path, this.#baseURL), {
      method: 'POST',
      headers: {
        authorization: `Bearer ${this.#apiKey}`,
        'content-type': 'application/json',
        accept: 'application/json',
      },
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
    return new ToolError(
      'The web search does not accept the key of this application. Answer without it, and say that it is not set up.',
    );
  if (status === 402 || status === 432 || status === 433)
    // the latter two are Tavily's
    return new ToolError(
      'The web search quota of this application is used up. Answer without it, and say so.',
    );
  if (status === 429)
    return new ToolError('There were too many web searches. Wait before the next one.', {
      retryable: true,
    });
  if (status >= 500)
    return new ToolError('The web search is out of order. Try again later, or answer without it.', {
      retryable: true,
    });
  return new ToolError(
    `The web search refused the query (status ${status}). Put it in other words, and make it shorter.`,
  );
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
  return new ToolError(
    'The web search gave an answer that cannot be read. Try again later, or answer without it.',
    { retryable: true },
  );
}

/** The names of a provider's fields for those of a hit. */
interface ResultFields {
  readonly snippet: string;
  readonly publishedAt: string;
}

const MAX_SNIPPET = 2_000;

/**
 * Reads the hits of `{ results: [...] }`. A result without an http address is left out, since it
 * can be neither read nor cited.
 */
function fromSearchResults(answer: unknown, fields: ResultFields): SearchHit[] {
  if (!isJsonObject(answer) || !Array.isArray(answer['results'])) return [];
  return answer['results'].flatMap((result: unknown) => {
    if (!isJsonObject(result)) return [];
    const { title, url, [fields.snippet]: snippet, [fields.publishedAt]: date } = result;
    if (!isPage(url)) return [];
    const publishedAt = typeof date === 'string' && date !== '' ? date : undefined;
    return [
      {
        title: textOf(title) || url,
        url,
        snippet: textOf(snippet).slice(0, MAX_SNIPPET),
        ...(publishedAt && { publishedAt }),
      },
    ];
  });
}

function isJsonObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

function isPage(url: unknown): url is string {
  return typeof url === 'string' && /^https?:\/\//i.test(url) && URL.canParse(url);
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

const PERPLEXITY = {
  name: 'PerplexitySearch',
  baseURL: 'https://api.perplexity.ai',
  keyVariable: 'PERPLEXITY_API_KEY',
};

const TAVILY = {
  name: 'TavilySearch',
  baseURL: 'https://api.tavily.com',
  keyVariable: 'TAVILY_API_KEY',
};

/** `web__search` by Perplexity. */
export class PerplexityTool extends WebSearch {
  static readonly shortName: string = 'perplexity';

  /** @throws ConfigurationError without a key */
  constructor(options: SearchApiOptions = {}) {
    super({ engine: new PerplexitySearch(options) });
  }
}

/** `web__search` by Tavily. */
export class TavilyTool extends WebSearch {
  static readonly shortName: string = 'tavily';

  /** @throws ConfigurationError without a key */
  constructor(options: SearchApiOptions = {}) {
    super({ engine: new TavilySearch(options) });
  }
}
