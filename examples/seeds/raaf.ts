/**
 * A class that knows nothing of any framework is a tool as it is: the loop validates, logs and
 * measures its calls, and reads from what it returns that it failed.
 *
 * `npm run example -- raaf`
 */
import { Module } from '@nestjs/common';
import {
  InjectToolLoop,
  type LoopResult,
  rawTool,
  ToolLoopModule,
  type ToolLoopService,
  toolLoopToken,
} from '@toolloop/core';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { print, runIfMain, withApplication } from '../run.js';

interface SearchResult {
  readonly success: boolean;
  readonly content?: string;
  readonly error?: string;
}

/** A client for a search service, written without a thought of agents. */
class SearchClient {
  constructor(private readonly options: { readonly timeout: number; readonly model: string }) {}

  call({ query }: { readonly query: string }): SearchResult {
    if (query.includes('outage')) return { success: false, error: 'The search service is down.' };
    return { success: true, content: `${this.options.model} found three pages about ${query}.` };
  }
}

function isSearchResult(result: unknown): result is SearchResult {
  return typeof result === 'object' && result !== null && 'success' in result;
}

const search = rawTool(SearchClient, {
  as: 'web__search',
  description: 'Search the web.',
  effect: 'read_only',
  input: {
    type: 'object',
    properties: { query: { type: 'string', minLength: 2 } },
    required: ['query'],
    additionalProperties: false,
  },
  reveal: 'all',
  options: { timeout: 60, model: 'sonar' },
  failed: (result) => isSearchResult(result) && !result.success && (result.error ?? true),
});

const model = new ScriptedModel([
  calls(
    call('web__search', { query: 'NestJS' }),
    call('web__search', { query: 'x' }),
    call('web__search', { query: 'the outage' }),
  ),
  text('Three pages about NestJS.'),
]);

@Module({
  imports: [
    ToolLoopModule.forRoot({ model, policy: { allow: ['web__*'] }, tools: [search] }),
    ToolLoopModule.forFeature({
      loops: {
        researcher: {
          instructions: 'You search the web.',
          execution: {
            validation: true,
            logging: true,
            logArguments: true,
            truncateLogs: 100,
            metadata: 'inline',
          },
        },
      },
    }),
  ],
})
class ResearchModule {
  constructor(@InjectToolLoop('researcher') readonly researcher: ToolLoopService) {}
}

/**
 * One answer of the model with three calls: one that succeeds, one with wrong arguments, and one
 * that the class says has failed.
 */
export async function raaf(): Promise<LoopResult> {
  return withApplication(
    ResearchModule,
    async (app) => {
      const researcher: ToolLoopService = app.get(toolLoopToken('researcher'));
      return researcher.run({
        prompt: 'What is there about NestJS?',
        actor: { id: 'ada' },
        tenant: 'acme',
      });
    },
    ['error', 'warn', 'log'],
  );
}

await runIfMain(import.meta.url, async () => {
  const { text: answer, toolCalls } = await raaf();
  for (const { status, result, error } of toolCalls) print(status, result ?? error);
  print(answer);
});
