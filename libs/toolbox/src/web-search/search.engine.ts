import { Expose } from 'class-transformer';

/** One page that a search engine found. */
export class SearchHit {
  @Expose() readonly title!: string;
  @Expose() readonly url!: string;
  @Expose() readonly snippet!: string;
  /** As the engine writes it; most often an ISO 8601 date. */
  @Expose() readonly publishedAt?: string;
}

/** What is searched for. */
export interface SearchQuery {
  readonly query: string;
  /** Hits at most. */
  readonly limit: number;
}

/** The port to a search engine. Throws a `ToolError` whose text is for the model, and holds no key. */
export abstract class SearchEngine {
  abstract search(query: SearchQuery, signal: AbortSignal): Promise<readonly SearchHit[]>;
}
