import type { SearchHit } from './search.engine.js';

/** Which fields of a provider's result are ours. */
export interface ResultFields {
  readonly snippet: string;
  readonly publishedAt: string;
}

type Json = Readonly<Record<string, unknown>>;

const MAX_SNIPPET = 2_000;

/** The hits of `{ results: [...] }`. A result without an http address is left out: what is no page cannot be read or cited. */
export function fromSearchResults(answer: unknown, fields: ResultFields): SearchHit[] {
  const results: unknown = (answer as Json | null)?.['results'];
  if (!Array.isArray(results)) return [];
  return results.flatMap((result: unknown) => {
    if (typeof result !== 'object' || result === null) return [];
    const { title, url, [fields.snippet]: snippet, [fields.publishedAt]: date } = result as Json;
    if (!isPage(url)) return [];
    const publishedAt = typeof date === 'string' && date !== '' ? date : undefined;
    return [{ title: textOf(title) || url, url, snippet: textOf(snippet).slice(0, MAX_SNIPPET), ...(publishedAt && { publishedAt }) }];
  });
}

function isPage(url: unknown): url is string {
  return typeof url === 'string' && /^https?:\/\//i.test(url) && URL.canParse(url);
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
