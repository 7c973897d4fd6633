import type { Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  LlmTool,
  type RawTool,
  rawTool,
  ToolCatalog,
  ToolInput,
  ToolLoopModule,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { type RawToolClass } from '@toolloop/core/catalog';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import {
  CodeInterpreter,
  type CodeOutcome,
  FetchPage,
  GetCurrentTime,
  InterpretCode,
  PerplexityTool,
  ReadFile,
  SearchFiles,
  TavilyTool,
  WebSearch,
} from '@toolloop/toolbox';
import { describe, expect, it } from '@jest/globals';
import { TemporaryDirectory } from './temporary-directory.js';

const CLASSES: readonly RawToolClass[] = [
  GetCurrentTime,
  FetchPage,
  SearchFiles,
  ReadFile,
  WebSearch,
  InterpretCode,
];

/** A provider with one method, declared as the raw tool declares itself. */
function providerOf(
  { tool }: RawToolClass,
  perform: (input: unknown) => unknown = () => undefined,
): Type {
  if (!tool) throw new Error('The class has no declaration.');
  const { id, input, ...options } = tool;
  const [namespace, name = ''] = id.split('__');
  class RawToolHost {
    run(given: unknown): unknown {
      return perform(given);
    }
  }
  ToolInput(input as Type)(RawToolHost.prototype, 'run', 0);
  LlmTool({ ...options, name } as Parameters<typeof LlmTool>[0])(RawToolHost.prototype, 'run', {});
  ToolProvider({ namespace })(RawToolHost);
  return RawToolHost;
}

async function start(
  providers: readonly Type[],
  model = new ScriptedModel([]),
  tools: readonly RawTool[] = [],
) {
  const module = ToolLoopModule.forRoot({ model, tools, policy: { allow: ['*'] } });
  const built = await Test.createTestingModule({
    imports: [module],
    providers: [...providers],
  }).compile();
  return built.init();
}

describe('the declarations of the toolbox', () => {
  it('start an application, with all that a model needs to know', async () => {
    const app = await start(CLASSES.map((type) => providerOf(type)));
    const specs = app.get(ToolCatalog).list();
    expect(specs.map(({ id, effect, labels }) => [id, effect, labels])).toEqual([
      [
        'core__get_current_time',
        'read_only',
        { reads: 'public', returns: 'trusted', egress: false },
      ],
      ['web__fetch_page', 'read_only', { reads: 'public', returns: 'untrusted', egress: true }],
      ['files__search', 'read_only', { reads: 'private', returns: 'untrusted', egress: false }],
      ['files__read', 'read_only', { reads: 'private', returns: 'untrusted', egress: false }],
      ['web__search', 'read_only', { reads: 'public', returns: 'untrusted', egress: true }],
      [
        'code__interpret',
        'external_side_effect',
        { reads: 'private', returns: 'untrusted', egress: true },
      ],
    ]);
    expect(specs[1]?.inputSchema).toMatchObject({
      required: ['url'],
      properties: { url: { type: 'string', maxLength: 2048 } },
    });
    expect(specs.every(({ outputSchema }) => outputSchema !== undefined)).toBe(true);
    await app.close();
  });

  it('let out what the tools return, and no more', async () => {
    await using directory = await TemporaryDirectory.with({ 'a.txt': 'one\ntwo' });
    const search = new SearchFiles({ root: directory.path });
    const read = new ReadFile({ root: directory.path });
    const hits = [{ title: 'A', url: 'https://a.test/', snippet: 'a', score: 0.5 }];
    const model = new ScriptedModel([
      calls(
        call('files__search', { text: 'two' }),
        call('files__read', { path: 'a.txt' }),
        call('web__search', { query: 'a' }),
      ),
      text('Done.'),
    ]);
    const app = await start(
      [
        providerOf(SearchFiles, (input) =>
          search.call(input as Parameters<SearchFiles['call']>[0]),
        ),
        providerOf(ReadFile, (input) => read.call(input as Parameters<ReadFile['call']>[0])),
        providerOf(WebSearch, () => hits),
      ],
      model,
    );
    const { toolCalls } = await app
      .get(ToolLoopService)
      .run({ prompt: 'Go.', actor: {}, tenant: 'acme' });
    expect(toolCalls.map(({ result }) => result)).toEqual([
      { matches: [{ path: 'a.txt', line: 2, text: 'two' }], skippedFiles: 0 },
      { path: 'a.txt', text: 'one\ntwo', firstLine: 1, lineCount: 2, cut: false },
      [{ title: 'A', url: 'https://a.test/', snippet: 'a' }],
    ]);
    await app.close();
  });

  it('have short names, by which selections find them', async () => {
    class NoInterpreter extends CodeInterpreter {
      override run(): Promise<CodeOutcome> {
        return Promise.resolve({ stdout: '', stderr: '', exitCode: 0 });
      }
    }
    const interpreter = new NoInterpreter();
    const tools = [
      rawTool(FetchPage),
      rawTool(SearchFiles, { options: { root: import.meta.dirname } }),
      rawTool(InterpretCode, { options: { interpreter } }),
      rawTool(PerplexityTool, { options: { apiKey: 'none', timeoutMs: 60_000 } }),
      rawTool(TavilyTool, { as: 'web__tavily', options: { apiKey: 'none' } }),
    ];
    const app = await start([], new ScriptedModel([]), tools);
    const found = ['web_page_fetch', 'file_search', 'code_interpreter', 'perplexity', 'tavily'].map(
      (name) => app.get(ToolCatalog).resolve(name).spec.id,
    );
    expect(found).toEqual([
      'web__fetch_page',
      'files__search',
      'code__interpret',
      'web__search',
      'web__tavily',
    ]);
    await app.close();
  });
});
