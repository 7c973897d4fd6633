import { describe, it } from '@jest/globals';
import { ModelError, type Tool, ToolSource } from '@toolloop/core';
import { sourceTool } from '@toolloop/core/sources';
import {
  call,
  calls,
  cut,
  events,
  fails,
  hangs,
  languageModelContract,
  type ModelSituation,
  ScriptedModel,
  type ScriptedTurn,
  text,
  toolSourceContract,
} from '@toolloop/testing';
import { eventEncoderContract } from '@toolloop/testing/ui-stream';
import {
  agUiEncoder,
  assistantTransportEncoder,
  chatCompletionsEncoder,
  dataStreamEncoder,
  sseEncoder,
  uiMessageEncoder,
} from '@toolloop/ui-stream';
import { Subject } from 'rxjs';

const SITUATIONS: Readonly<Record<ModelSituation, ScriptedTurn>> = {
  text: text('Hello there.'),
  calls: calls(call('weather', { city: 'Oslo' }), call('weather', { city: 'Bergen' })),
  refuses: fails(new ModelError('Too many.', { status: 429, retryable: true })),
  breaks: cut('Hello there.'),
  ends: events([
    { type: 'tool-call-delta', toolCallId: 'c1', name: 'weather', argumentsDelta: '{"ci' },
  ]),
  stalls: hangs('Hello there.'),
};

languageModelContract(
  'that plays a script',
  (situation) => {
    const model = new ScriptedModel([SITUATIONS[situation], SITUATIONS[situation]]);
    return Promise.resolve({ model, openConnections: () => model.openStreams });
  },
  { describe, it },
);

class Reports extends ToolSource {
  override readonly origin = { source: 'reports', trusted: true };
  override readonly prefix = 'reports';
  override readonly changes$ = new Subject<void>();
  private readonly ids = ['reports__daily', 'reports__weekly'];

  override tools(): readonly Tool[] {
    return this.ids.map((id) =>
      sourceTool({
        id,
        origin: this.origin,
        description: `Is ${id}.`,
        effect: 'read_only',
        labels: { returns: 'trusted', reads: 'public', egress: false },
        inputSchema: {
          type: 'object',
          properties: { day: { type: 'string' } },
          additionalProperties: false,
        },
        invoke: () => 'a report',
      }),
    );
  }

  add(): void {
    this.ids.push('reports__monthly');
    this.changes$.next();
  }
}

toolSourceContract(
  'of reports',
  () => {
    const source = new Reports();
    return Promise.resolve({
      source,
      policy: { allow: ['reports__*'] },
      call: { tool: 'reports__daily', args: { day: 'today' } },
      change: () => source.add(),
    });
  },
  { describe, it },
);

for (const [name, make] of Object.entries({
  'of our own events': () => sseEncoder(),
  'of the AI SDK': () => uiMessageEncoder(),
  'of AG-UI': () => agUiEncoder({ threadId: 't1', runId: 'r1' }),
  'of the data stream': () => dataStreamEncoder(),
  'of the assistant transport': () => assistantTransportEncoder(),
  'of chat completions': () => chatCompletionsEncoder({ model: 'm', created: 1 }),
}))
  eventEncoderContract(name, make, { describe, it });
