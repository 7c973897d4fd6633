import { afterEach, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  PendingError,
  PendingService,
  tool,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { AuditTrail } from '@toolloop/core/audit';
import { DurableModule } from '@toolloop/durable';
import { ScriptedModel, call, calls } from '@toolloop/testing';
import { createServerDatabase, describePostgres } from './databases.js';

const ROUNDS = 10;

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

/** One process of an application whose payments need the approval of another person. */
async function started(url: string): Promise<TestingModule> {
  const pay = tool({
    id: 'bank__pay',
    description: 'Pays.',
    input: { type: 'object', properties: {}, additionalProperties: false },
    effect: 'external_side_effect',
    reveal: 'all',
    execute: () => 'paid',
  });
  const model = new ScriptedModel(
    Array.from({ length: ROUNDS }, () => calls(call('bank__pay', {}))),
  );
  const policy = {
    version: 'v1',
    allow: ['*'],
    flow: 'off',
    requireApproval: [{ tools: ['bank__pay'], notRequester: true }],
  } as const;
  const module = await Test.createTestingModule({
    imports: [
      DurableModule.forRoot({ url }),
      ToolLoopModule.forRoot({ model, tools: [pay], policy, audit: { key: 'k'.repeat(32) } }),
    ],
  }).compile();
  module.useLogger(false);
  await module.init();
  cleanUps.push(() => module.close());
  return module;
}

async function linesOf(module: TestingModule): Promise<readonly string[]> {
  const lines: string[] = [];
  for await (const line of module.get(AuditTrail).exportLines('acme')) lines.push(line);
  return lines;
}

/** Resolves to the code of the refusal where the decision was not taken. */
function decided(module: TestingModule, approvalId: string, id: string): Promise<string> {
  const decision = module
    .get(PendingService)
    .decide({ approvalId, decision: 'approve' }, { actor: { id }, tenant: 'acme' });
  return decision.then(
    () => 'taken',
    (error: unknown) => (error instanceof PendingError ? error.code : String(error)),
  );
}

describePostgres('an approval that people of two processes decide at once, on PostgreSQL', () => {
  it('has exactly one decision in the audit, and a refusal of each decision that came too late', async () => {
    const { url, drop } = await createServerDatabase();
    cleanUps.push(drop);
    const [first, second] = [await started(url), await started(url)];
    for (let round = 1; round <= ROUNDS; round += 1) {
      await first
        .get(ToolLoopService)
        .run({ prompt: 'Pay.', actor: { id: 'alice' }, tenant: 'acme' });
      const approvalId =
        (await first.get(PendingService).list({ actor: { id: 'mia' }, tenant: 'acme' }))[0]
          ?.approvalId ?? '';
      const outcomes = await Promise.all(
        [first, second, first, second].map((module, index) =>
          decided(module, approvalId, `person ${index}`),
        ),
      );
      expect(outcomes.filter((outcome) => outcome !== 'already_answered')).toEqual(['taken']);
      const about = (await linesOf(first)).filter((line) => line.includes(approvalId));
      const count = (kind: string): number =>
        about.filter((line) => line.includes(`"${kind}"`)).length;
      expect([count('approval-decision'), count('approval-refusal')]).toEqual([1, 3]);
    }
  });
});
