import { inspect } from 'node:util';
import type { RequestListener } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from '@jest/globals';
import { ConfigurationError } from '@toolloop/core';
import {
  PerplexitySearch,
  PerplexityTool,
  SearchEngine,
  TavilySearch,
  TavilyTool,
  WebSearch,
  type SearchApiOptions,
  type SearchHit,
  type SearchQuery,
} from '@toolloop/toolbox';
import { flood, LocalSite, serves } from './local-site.js';

const KEY = 'key-1234567890';
const json = (body: unknown): RequestListener => serves('application/json', JSON.stringify(body));
const signal = new AbortController().signal;

/** Fails as no `fetch` should. */
const tattling: typeof globalThis.fetch = (_url, init) =>
  Promise.reject(new Error(`failed with ${JSON.stringify(init?.headers)}`));

const PROVIDERS = [
  {
    name: 'Perplexity',
    variable: 'PERPLEXITY_API_KEY',
    create: (options?: SearchApiOptions) => new PerplexitySearch(options),
    tool: (options?: SearchApiOptions) => new PerplexityTool(options),
    result: {
      title: 'Nest',
      url: 'https://nestjs.com/',
      snippet: 'A framework',
      date: '2026-01-31',
      last_updated: '2026-02-01',
    },
  },
  {
    name: 'Tavily',
    variable: 'TAVILY_API_KEY',
    create: (options?: SearchApiOptions) => new TavilySearch(options),
    tool: (options?: SearchApiOptions) => new TavilyTool(options),
    result: {
      title: 'Nest',
      url: 'https://nestjs.com/',
      content: 'A framework',
      score: 0.9,
      raw_content: null,
      published_date: '2026-01-31',
    },
  },
];

describe.each(PROVIDERS)('web__search by $name', ({ create, tool, variable, result }) => {
  afterEach(() => {
    delete process.env[variable];
  });

  it('asks for pages and maps them', async () => {
    const bodies: Promise<string>[] = [];
    const answer = json({ results: [result, { ...result, url: 'https://docs.nestjs.com/' }] });
    await using site = await LocalSite.start((request, response) => {
      bodies.push(text(request));
      answer(request, response);
    });
    const hits = await tool({ apiKey: KEY, baseURL: site.url }).call({ query: 'nest', limit: 2 });
    expect(hits[0]).toEqual({
      title: 'Nest',
      url: 'https://nestjs.com/',
      snippet: 'A framework',
      publishedAt: '2026-01-31',
    });
    expect(hits).toHaveLength(2);
    expect(site.requests[0]).toMatchObject({
      method: 'POST',
      url: '/search',
      headers: { authorization: `Bearer ${KEY}` },
    });
    expect(JSON.parse((await bodies[0]) ?? '')).toEqual({ query: 'nest', max_results: 2 });
  });

  it('keeps the path of a base URL', async () => {
    await using site = await LocalSite.start(json({ results: [] }));
    await create({ apiKey: KEY, baseURL: `${site.url}/proxy/v1` }).search(
      { query: 'x', limit: 1 },
      signal,
    );
    expect(site.requests[0]?.url).toBe('/proxy/v1/search');
  });

  it('leaves out what is no page, and fills in what is missing', async () => {
    const results = [
      null,
      'x',
      {},
      { ...result, url: 'javascript:alert(1)' },
      { url: 'https://a.test/', title: 7 },
    ];
    await using site = await LocalSite.start(json({ results }));
    const hits = await create({ apiKey: KEY, baseURL: site.url }).search(
      { query: 'x', limit: 5 },
      signal,
    );
    expect(hits).toEqual([{ title: 'https://a.test/', url: 'https://a.test/', snippet: '' }]);
  });

  it.each([['{}'], ['[]'], ['null'], ['{"results":null}']])('finds nothing in %s', async (body) => {
    await using site = await LocalSite.start(serves('application/json', body));
    expect(
      await create({ apiKey: KEY, baseURL: site.url }).search({ query: 'x', limit: 5 }, signal),
    ).toEqual([]);
  });

  it.each([
    [400, /other words/, false],
    [401, /does not accept the key/, false],
    [403, /does not accept the key/, false],
    [402, /used up/, false],
    [432, /used up/, false],
    [429, /too many/, true],
    [500, /out of order/, true],
  ])('turns status %s into a message without the key', async (status, safeMessage, retryable) => {
    await using site = await LocalSite.start(({ headers }, response) => {
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(JSON.stringify({ error: { message: `Bad key: ${headers.authorization}` } }));
    });
    const failed = create({ apiKey: KEY, baseURL: site.url }).search(
      { query: 'x', limit: 1 },
      signal,
    );
    const error: unknown = await failed.catch((caught: unknown) => caught);
    expect(error).toMatchObject({
      name: 'ToolError',
      retryable,
      safeMessage: expect.stringMatching(safeMessage),
    });
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(KEY);
  });

  it('does not hand on what fetch throws', async () => {
    const error: unknown = await create({ apiKey: KEY, fetch: tattling })
      .search({ query: 'x', limit: 1 }, signal)
      .catch((caught: unknown) => caught);
    expect(error).toMatchObject({ name: 'ToolError', retryable: true });
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(KEY);
  });

  it('takes the key nowhere else', async () => {
    await using other = await LocalSite.start(json({ results: [] }));
    await using site = await LocalSite.start((_request, response) =>
      response.writeHead(307, { location: `${other.url}/search` }).end(),
    );
    await expect(
      create({ apiKey: KEY, baseURL: site.url }).search({ query: 'x', limit: 1 }, signal),
    ).rejects.toThrow(/cannot be reached/);
    expect(other.requests).toEqual([]);
  });

  it('refuses an answer that is no JSON, or has no end', async () => {
    await using page = await LocalSite.start(serves('text/html', '<html>'));
    await expect(
      create({ apiKey: KEY, baseURL: page.url }).search({ query: 'x', limit: 1 }, signal),
    ).rejects.toThrow(/cannot be read/);
    await using endless = await LocalSite.start((_request, response) =>
      flood(response.writeHead(200), Buffer.alloc(65_536, 32)),
    );
    await expect(
      create({ apiKey: KEY, baseURL: endless.url }).search({ query: 'x', limit: 1 }, signal),
    ).rejects.toThrow(/cannot be read/);
  });

  it('gives up when the time is up, and when the caller does', async () => {
    await using site = await LocalSite.start(() => undefined);
    const engine = create({ apiKey: KEY, baseURL: site.url, timeoutMs: 50 });
    await expect(engine.search({ query: 'x', limit: 1 }, signal)).rejects.toMatchObject({
      name: 'ToolError',
      retryable: true,
    });
    const caller = new AbortController();
    const call = tool({ apiKey: KEY, baseURL: site.url }).call(
      { query: 'x' },
      { signal: caller.signal },
    );
    setTimeout(() => caller.abort(new Error('enough')), 20);
    await expect(call).rejects.toThrow('enough');
  });

  it('takes the key from the environment, and does not start without one', () => {
    expect(() => create()).toThrow(ConfigurationError);
    expect(() => create()).toThrow(`Set ${variable} or pass { apiKey }.`);
    expect(() => create({ apiKey: ' ' })).toThrow(ConfigurationError);
    process.env[variable] = KEY;
    expect(create()).toBeInstanceOf(SearchEngine);
  });

  it('does not show the key, nor a base URL with a password', () => {
    expect(inspect(tool({ apiKey: KEY }), { depth: 10, showHidden: true })).not.toContain(KEY);
    expect(JSON.stringify(tool({ apiKey: KEY }))).not.toContain(KEY);
    expect(() => create({ apiKey: `${KEY}\nX-Evil: 1` })).toThrow(
      /characters that no key can have/,
    );
    expect(() => create({ apiKey: `${KEY}\n\u00e9` })).not.toThrow(KEY);
    expect(() => create({ apiKey: KEY, baseURL: 'https://me:hunter2@proxy.test' })).toThrow(
      /base URL/,
    );
    expect(() => create({ apiKey: KEY, baseURL: 'https://me:hunter2@proxy.test' })).not.toThrow(
      /hunter2/,
    );
  });
});

describe('web__search', () => {
  class ListedSearch extends SearchEngine {
    readonly asked: SearchQuery[] = [];

    search(query: SearchQuery): Promise<SearchHit[]> {
      this.asked.push(query);
      return Promise.resolve(
        Array.from({ length: 30 }, (_, index) => ({
          title: `${index}`,
          url: `https://${index}.test/`,
          snippet: '',
        })),
      );
    }
  }

  it('asks any engine for five hits by default, and shows no more', async () => {
    const engine = new ListedSearch();
    expect(await new WebSearch({ engine }).call({ query: 'x' })).toHaveLength(5);
    expect(engine.asked).toEqual([{ query: 'x', limit: 5 }]);
  });

  it('has a short name for each provider', () => {
    expect([PerplexityTool.shortName, TavilyTool.shortName]).toEqual(['perplexity', 'tavily']);
    expect(PerplexityTool.tool.id).toBe('web__search');
  });
});
