import type { Provider } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  ActorDirectory,
  clientTool,
  type LoopRequest,
  PendingService,
  type Policy,
  subRunTool,
  type Tool,
  tool,
  ToolLoopModule,
  ToolLoopService,
  ToolSource,
} from '@toolloop/core';
import { AuditStore } from '@toolloop/core/stores';
import { call, ScriptedModel, type ScriptedTurn } from '@toolloop/testing';
import type { JSONSchema7 } from 'json-schema';
import { toolOf } from '../../tools/tools.js';

export const alice = { actor: { id: 'alice' }, tenant: 'acme' };
export const open: Policy = { version: 'v1', allow: ['*', 'strange__write'], flow: 'off' };
const KEY: JSONSchema7 = {
  type: 'object',
  properties: { key: { type: 'string' } },
  required: ['key'],
  additionalProperties: false,
};
const SIGNED: JSONSchema7 = {
  type: 'object',
  properties: { signed: { type: 'boolean' } },
  required: ['signed'],
};

class Strangers extends ToolSource {
  readonly origin = { source: 'strange', trusted: false };

  override tools(): readonly Tool[] {
    return [toolOf({ id: 'strange__write', origin: this.origin })];
  }
}

export class Staff extends ActorDirectory<{ readonly id: string }> {
  override find(id: string) {
    return Promise.resolve({ id });
  }
}

/** A desk that notes which of its tools were really called, and describes them in its words. */
export async function desk(
  script: readonly ScriptedTurn[],
  policy: Policy = open,
  stores: readonly Provider[] = [],
  words = '',
) {
  const called: string[] = [];
  const made = (id: string, more: Partial<Parameters<typeof tool<{ key: string }>>[0]> = {}) =>
    tool<{ key: string }>({
      id: `desk__${id}`,
      description: `${id}${words}`,
      effect: 'state_change',
      reveal: 'all',
      input: KEY,
      execute: ({ key }) => {
        called.push(`${id} ${key}`);
        return { key, found: called.length };
      },
      ...more,
    });
  const tools = [
    made('look', { effect: 'read_only' }),
    made('write', {
      preview: ({ key }) => ({
        sentence: `Writes ${key}.`,
        changes: [{ field: 'key', after: key }],
      }),
    }),
    made('inquire', {
      effect: 'read_only',
      execute: async (_input, context) => ({
        found: await context.ask({
          key: 'many',
          question: 'How many?',
          schema: { type: 'integer' },
        }),
      }),
    }),
    made('send', { effect: 'external_side_effect' }),
    made('fetch', { effect: 'read_only', labels: { egress: true } }),
    made('book', {
      effect: 'external_side_effect',
      directive: { type: 'desk.book', subject: '{key}' },
    }),
    made('ask', {
      questions: () => [{ key: 'key', question: 'Which?', schema: { type: 'string' } }],
    }),
    clientTool({ id: 'desk__pick', description: 'Picks.', effect: 'read_only', input: KEY }),
    clientTool({
      id: 'desk__sign',
      description: 'Has it signed.',
      effect: 'state_change',
      input: KEY,
      output: SIGNED,
    }),
    subRunTool({ id: 'desk__delegate', description: 'Delegates.', tools: ['desk__look'] }),
  ];
  const model = new ScriptedModel(script);
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model,
        policy,
        tools,
        audit: { key: 'k'.repeat(32) },
        directives: { immediateEffects: 'allow' },
        providers: stores,
      }),
    ],
    providers: [{ provide: 'strangers', useValue: new Strangers() }, Staff],
  }).compile();
  module.useLogger(false);
  await module.init();
  const loop: ToolLoopService = module.get(ToolLoopService);
  return {
    module,
    model,
    called,
    loop,
    rehearse: (request: Partial<LoopRequest> = {}) =>
      loop.run({ prompt: 'Go on.', ...alice, rehearse: true, ...request }),
    inbox: module.get<PendingService>(PendingService),
    entries: () => module.get<AuditStore>(AuditStore).read('acme', { from: 1, limit: 100 }),
  };
}

export const desked = (id: string, key = 'a') => call(`desk__${id}`, { key });
