import { fromSearchResults } from './from-search-results.js';
import { SearchApiClient } from './search-api.client.js';
import type { SearchApiOptions } from './search-api.options.js';
import { SearchEngine, type SearchHit, type SearchQuery } from './search.engine.js';

const PROVIDER = { name: 'PerplexitySearch', baseURL: 'https://api.perplexity.ai', keyVariable: 'PERPLEXITY_API_KEY' };

/** Perplexity's Search API, `POST /search`: ranked pages, not an answer written by its model. The key is in `PERPLEXITY_API_KEY` or an option. */
export class PerplexitySearch extends SearchEngine {
  readonly #client: SearchApiClient;

  /** Throws a `ConfigurationError` without a key. */
  constructor(options: SearchApiOptions = {}) {
    super();
    this.#client = new SearchApiClient(PROVIDER, options);
  }

  async search({ query, limit }: SearchQuery, signal: AbortSignal): Promise<SearchHit[]> {
    const answer = await this.#client.post('search', { query, max_results: limit }, signal);
    return fromSearchResults(answer, { snippet: 'snippet', publishedAt: 'date' });
  }
}
