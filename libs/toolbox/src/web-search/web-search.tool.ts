import { ToolField, type RawToolDeclaration } from '@toolloop/core';
import { IsInt, IsOptional, IsString, Max, MaxLength, Min, MinLength } from 'class-validator';
import type { CallContext } from '../call-context.js';
import { PerplexitySearch } from './perplexity.search.js';
import type { SearchApiOptions } from './search-api.options.js';
import { SearchHit, type SearchEngine } from './search.engine.js';
import { TavilySearch } from './tavily.search.js';

const DEFAULT_HITS = 5;
const MAX_HITS = 20;

/** What `web__search` takes. */
export class WebSearchInput {
  @ToolField({ description: 'What to search for, as you would type it into a search engine.', example: 'NestJS 12 release notes' })
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

export interface WebSearchOptions {
  readonly engine: SearchEngine;
}

/** Searches the web with whatever engine it is given. A query goes to a third party, hence `egress`. */
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

  /** Throws what the engine throws: a `ToolError`, or the reason of an aborted signal. */
  async call({ query, limit = DEFAULT_HITS }: WebSearchInput, context: CallContext = {}): Promise<readonly SearchHit[]> {
    const hits = await this.engine.search({ query, limit }, context.signal ?? new AbortController().signal);
    return hits.slice(0, limit);
  }
}

/** `web__search` by Perplexity. */
export class PerplexityTool extends WebSearch {
  static readonly shortName: string = 'perplexity';

  /** Throws a `ConfigurationError` without a key. */
  constructor(options: SearchApiOptions = {}) {
    super({ engine: new PerplexitySearch(options) });
  }
}

/** `web__search` by Tavily. */
export class TavilyTool extends WebSearch {
  static readonly shortName: string = 'tavily';

  /** Throws a `ConfigurationError` without a key. */
  constructor(options: SearchApiOptions = {}) {
    super({ engine: new TavilySearch(options) });
  }
}
