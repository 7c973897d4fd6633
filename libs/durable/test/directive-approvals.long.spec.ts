import { afterEach, describe, expect, it } from '@jest/globals';
import type { TestingModule } from '@nestjs/testing';
import { PendingService, type LoopResult, type Policy, ToolLoopService } from '@toolloop/core';
import { DirectiveService } from '@toolloop/core/directives';
import { PendingStore } from '@toolloop/core/stores';
import { Database, type DurableOptions } from '@toolloop/durable';
import { createServerDatabase, describePostgres, inMemory } from './databases.js';
import { alice, startDesk } from './fixtures/refund.desk.js';

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

/** Whatever is written about directives is refused, as if the process died in the middle of it. */
const REFUSE = `
  create function toolloop.refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$;
  create trigger refuse before insert on toolloop.directives for each row execute function toolloop.refuse()`;
const policy: Policy = {
  version: 'v1',
  allow: ['*'],
  requireApproval: [{ tools: ['bank__refund'] }],
};

async function start(durable: DurableOptions): Promise<TestingModule> {
  const module = await startDesk(durable, [], { perform: false });
  cleanUps.push(() => module.close());
  return module;
}

/** A refund that a person said yes to. */
async function approved(
  module: TestingModule,
): Promise<{ readonly approvalId: string; readonly resume: () => Promise<LoopResult> }> {
  const loop: ToolLoopService = module.get(ToolLoopService);
  const approvals: PendingService = module.get(PendingService);
  const { runId } = await loop.run({ prompt: 'Refund it.', policy, ...alice });
  const [asked] = await approvals.list(alice);
  const approvalId = asked?.approvalId ?? '';
  await approvals.decide({ approvalId, decision: 'approve' }, alice);
  return {
    approvalId,
    resume: async () => (await loop.resume(runId, { policy, ...alice })).result,
  };
}

async function isUsed(module: TestingModule, approvalId: string): Promise<boolean> {
  return (await module.get(PendingStore).find(approvalId))?.usedAt !== undefined;
}

function suite(open: () => Promise<DurableOptions>): void {
  it('is used up with the directive that it lets in', async () => {
    const desk = await start(await open());
    const { approvalId, resume } = await approved(desk);
    expect((await resume()).toolCalls).toMatchObject([{ status: 'succeeded' }]);
    const directives: DirectiveService = desk.get(DirectiveService);
    expect([await isUsed(desk, approvalId), await directives.list(alice)]).toMatchObject([
      true,
      [{ status: 'pending' }],
    ]);
  });

  it('is not used up where the directive could not be kept', async () => {
    const desk = await start(await open());
    const database = desk.get(Database);
    for (const statement of REFUSE.split(/;\n(?=  create trigger)/))
      await database.query(statement);
    const { approvalId, resume } = await approved(desk);
    await expect(resume()).rejects.toMatchObject({
      name: 'RunError',
      message: expect.stringContaining('an operator has to look at it'),
    });
    expect(await isUsed(desk, approvalId)).toBe(false);
  });
}

describe('the approval of a call that becomes a directive, on PGlite', () => {
  suite(inMemory);
});

describePostgres('the approval of a call that becomes a directive, on PostgreSQL', () => {
  suite(async () => {
    const { url, drop } = await createServerDatabase();
    cleanUps.push(drop);
    return { url };
  });
});
