import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import { type LoopResult, tool, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { DurableModule } from '@toolloop/durable';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { createServerDatabase, describePostgres } from './databases.js';

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

/** One process, whose payments take their time. */
async function started(url: string, effects: string[]): Promise<TestingModule> {
  const pay = tool({
    id: 'bank__pay',
    description: 'Pays.',
    input: { type: 'object', properties: {}, additionalProperties: false },
    effect: 'external_side_effect',
    reveal: 'all',
    execute: async () => {
      await wait(500);
      return `receipt ${effects.push('paid')}`;
    },
  });
  const model = new ScriptedModel([calls(call('bank__pay', {})), text('Paid.')]);
  const policy = { version: 'v1', allow: ['*'], flow: 'off' } as const;
  const module = await Test.createTestingModule({
    imports: [
      DurableModule.forRoot({ url }),
      ToolLoopModule.forRoot({ model, tools: [pay], policy }),
    ],
  }).compile();
  module.useLogger(false);
  await module.init();
  cleanUps.push(() => module.close());
  return module;
}

const asked = (module: TestingModule): Promise<LoopResult> =>
  module
    .get(ToolLoopService)
    .run({ prompt: 'Pay.', requestId: 'once', actor: { id: 'alice' }, tenant: 'acme' });

describePostgres('one request that two processes are sent at once, on PostgreSQL', () => {
  it('has its effect once, and both read its outcome', async () => {
    const { url, drop } = await createServerDatabase();
    cleanUps.push(drop);
    const effects: string[] = [];
    const [one, two] = [await started(url, effects), await started(url, effects)];
    const results = await Promise.all([asked(one), asked(two)]);
    expect(effects).toEqual(['paid']);
    expect(results.map(({ toolCalls }) => toolCalls[0]?.result)).toEqual([
      'receipt 1',
      'receipt 1',
    ]);
  });
});
