import { fromSearchResults } from './from-search-results.js';
import { SearchApiClient } from './search-api.client.js';
import type { SearchApiOptions } from './search-api.options.js';
import { SearchEngine, type SearchHit, type SearchQuery } from './search.engine.js';

const PROVIDER = { name: 'TavilySearch', baseURL: 'https://api.tavily.com', keyVariable: 'TAVILY_API_KEY' };

/** Tavily's search API, `POST /search`. The key is in `TAVILY_API_KEY` or an option. */
export class TavilySearch extends SearchEngine {
  readonly #client: SearchApiClient;

  /** Throws a `ConfigurationError` without a key. */
  constructor(options: SearchApiOptions = {}) {
    super();
    this.#client = new SearchApiClient(PROVIDER, options);
  }

  async search({ query, limit }: SearchQuery, signal: AbortSignal): Promise<SearchHit[]> {
    const answer = await this.#client.post('search', { query, max_results: limit }, signal);
    return fromSearchResults(answer, { snippet: 'content', publishedAt: 'published_date' });
  }
}
