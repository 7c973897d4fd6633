/**
 * One runner executes every call, and policy stands at both ends: a tool that it denies is neither
 * offered nor executed. Calls are assembled from the deltas of the provider's stream, and their ids
 * stay the same from start to result.
 *
 * `npm run example -- cogni`
 */
import { createServer, type Server } from 'node:http';
import { Injectable, Module } from '@nestjs/common';
import {
  LlmTool,
  type LoopEvent,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { openai } from '@toolloop/openai';
import { lastValueFrom, toArray } from 'rxjs';
import { print, runIfMain, withApplication } from '../run.js';

@Injectable()
@ToolProvider({ namespace: 'core' })
class CoreTools {
  readonly deleted: string[] = [];

  @LlmTool({ description: 'Makes a title for a text.', effect: 'read_only', reveal: 'all' })
  generateTitle(@ToolParam('message', { description: 'The text.' }) message: string): string {
    return message.toUpperCase();
  }

  @LlmTool({ description: 'Deletes a text.', effect: 'state_change', reveal: [] })
  deleteText(@ToolParam('id', { description: 'Its id.' }) id: string): void {
    this.deleted.push(id);
  }
}

const delta = (fields: object, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: fields, finish_reason }],
});
const part = (index: number, fields: object) => delta({ tool_calls: [{ index, ...fields }] });

/**
 * Two answers as a provider streams them: the arguments of both calls arrive in fragments, and
 * those of the second are no JSON.
 */
const ANSWERS = [
  [
    part(0, {
      id: 'call_a',
      type: 'function',
      function: { name: 'core__generateTitle', arguments: '' },
    }),
    part(0, { function: { arguments: '{"mes' } }),
    part(1, {
      id: 'call_b',
      type: 'function',
      function: { name: 'core__generateTitle', arguments: '{"message": hi' },
    }),
    part(0, { function: { arguments: 'sage":"hi"}' } }),
    delta({}, 'tool_calls'),
  ],
  [delta({ content: 'The title is HI.' }), delta({}, 'stop')],
];

async function provider(): Promise<{
  readonly server: Server;
  readonly baseURL: string;
  readonly requests: string[];
}> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += String(chunk)));
    request.on('end', () => {
      const answer = ANSWERS[requests.push(body) - 1] ?? [];
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(
        `${answer.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`,
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return { server, baseURL: `http://127.0.0.1:${port}/v1`, requests };
}

/** Streams one run over a real wire, and makes one call of a tool that policy denies. */
export async function cogni() {
  const { server, baseURL, requests } = await provider();
  @Module({
    imports: [
      ToolLoopModule.forRoot({
        model: openai('cogni-1', { baseURL }),
        policy: { allow: ['core__generateTitle'] },
      }),
    ],
    providers: [CoreTools],
  })
  class CogniModule {}
  return withApplication(CogniModule, async (app) => {
    const loop: ToolLoopService = app.get(ToolLoopService);
    const who = { actor: { id: 'ada' }, tenant: 'acme' };
    const events: LoopEvent[] = await lastValueFrom(
      loop.stream({ prompt: 'Title it: hi', ...who }).pipe(toArray()),
    );
    const denied = await loop.call({ tool: 'core__deleteText', args: { id: 't-1' }, ...who });
    const deleted = [...app.get(CoreTools).deleted];
    server.close();
    return { events, denied, requests, deleted };
  });
}

await runIfMain(import.meta.url, async () => {
  const { events, denied } = await cogni();
  for (const event of events) {
    if (event.type === 'tool-call') print(event.type, event.toolCallId, event.tool);
    if (event.type === 'tool-result')
      print(event.type, event.record.toolCallId, event.record.result ?? event.record.error);
    if (event.type === 'text-delta') print(event.type, event.text);
    if (event.type === 'run-end') print(event.type, event.finishReason);
  }
  print('Denied by policy:', denied.record.error);
});
