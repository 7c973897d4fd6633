import { basename } from 'node:path';
import { expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { rawTool, ToolCatalog, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import {
  FetchPage,
  GetCurrentTime,
  PerplexityTool,
  ReadFile,
  SearchFiles,
  TavilyTool,
} from '@toolloop/toolbox';

const tools = [
  rawTool(GetCurrentTime),
  rawTool(FetchPage, { options: { allowPrivateAddresses: false } }),
  rawTool(ReadFile, { options: { root: import.meta.dirname } }),
  rawTool(SearchFiles, { options: { root: import.meta.dirname } }),
  rawTool(PerplexityTool, { options: { apiKey: 'none' } }),
  rawTool(TavilyTool, { as: 'web__search_tavily', options: { apiKey: 'none' } }),
];

it('the toolbox registers as it stands, and its tools run through the pipeline', async () => {
  const model = new ScriptedModel([
    calls(
      call('core__get_current_time', { timeZone: 'Europe/Dublin' }),
      call('files__read', { path: basename(import.meta.filename), limit: 1 }),
    ),
    calls(call('web__fetch_page', { url: 'http://127.0.0.1/' })),
    text('done'),
  ]);
  const policy = { allow: ['core__*', 'files__*', 'web__*'], flow: 'off' as const };
  const app = await Test.createTestingModule({
    imports: [ToolLoopModule.forRoot({ model, tools, policy })],
  }).compile();
  await app.init();
  const ids = app
    .get(ToolCatalog)
    .list()
    .map(({ id }) => id);
  const { toolCalls } = await app
    .get(ToolLoopService)
    .run({ prompt: 'Go.', actor: { id: 'a' }, tenant: 'acme' });

  expect(ids).toEqual([
    'core__get_current_time',
    'web__fetch_page',
    'files__read',
    'files__search',
    'web__search',
    'web__search_tavily',
  ]);
  expect(toolCalls.map(({ status }) => status)).toEqual(['succeeded', 'succeeded', 'failed']);
  expect(toolCalls[0]?.result).toMatchObject({ timeZone: 'Europe/Dublin' });
  expect(toolCalls[2]?.error?.safeMessage).toContain('not on the public internet');
});
