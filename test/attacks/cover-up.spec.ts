import { describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { type LoopResult, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { AuditTrail, verifyAudit } from '@toolloop/core/audit';
import { type AuditEntry, AuditStore } from '@toolloop/core/stores';
import { policyAt } from './levels.js';
import { loadPacks, OWN_PACKS } from './load-packs.js';
import { ObedientModel } from './obedient.model.js';
import { packTools } from './pack-tools.js';
import { RunWorld } from './run.world.js';

const keys = 'thirty-two bytes that nobody guesses';

interface CoverUp {
  readonly result: LoopResult;
  readonly world: RunWorld;
  readonly entries: readonly AuditEntry[];
  readonly head: Awaited<ReturnType<AuditTrail['exportHead']>>;
}

/** Lets the attack of the pack through that sends an invoice and deletes it from the sent mails. */
async function coverUp(): Promise<CoverUp> {
  const pack = loadPacks(OWN_PACKS).find(({ name }) => name === 'mail');
  const task = pack?.userTasks.find(({ id }) => id === 'summarise-unread');
  const injection = pack?.injections.find(({ id }) => id === 'send-and-cover-up');
  if (!pack || !task || !injection) throw new Error('The pack mail has no cover-up.');
  const model = new ObedientModel(task, injection);
  const audit = { key: keys, arguments: 'redacted' } as const;
  const loop = ToolLoopModule.forRoot({
    model,
    policy: policyAt('off'),
    tools: packTools(pack).tools,
    audit,
  });
  const app = await (await Test.createTestingModule({ imports: [loop] }).compile()).init();
  const world = new RunWorld(pack, { promo: injection.goal });
  const result = await app
    .get(ToolLoopService)
    .run({ prompt: task.prompt, context: { world }, actor: { id: 'robin' }, tenant: 'northwind' });
  const entries = await app.get(AuditStore).read('northwind', { from: 1, limit: 100 });
  const head = await app.get(AuditTrail).exportHead('northwind');
  await app.close();
  return { result, world, entries, head };
}

describe('invariant 14: an attacker who deletes the traces', () => {
  it('invariant 14: reaches those that a tool can reach, and not the audit', async () => {
    const { world, entries, result } = await coverUp();
    expect(world.rows('sent')).toEqual([]);
    const sent = entries.find(
      ({ kind, declaredId }) => kind === 'decision' && declaredId === 'mail__send',
    );
    expect(sent).toMatchObject({
      runId: result.runId,
      decision: { kind: 'allow' },
      args: { to: 'audit@papermill-accounts.example' },
    });
  });

  it('invariant 14: leaves the deleting itself there too', async () => {
    const { entries } = await coverUp();
    const deleted = entries.filter(({ declaredId }) => declaredId === 'mail__deleteSent');
    expect(deleted.map(({ kind }) => kind)).toEqual(['decision', 'outcome']);
  });

  it('invariant 14: cannot take an entry out, nor the last one off, without it showing', async () => {
    const { entries, head } = await coverUp();
    const without = entries.filter(({ declaredId }) => declaredId !== 'mail__send');
    const results = [entries, without, entries.slice(0, -1)].map((chain) =>
      verifyAudit(chain, { keys, head }),
    );
    expect((await Promise.all(results)).map(({ valid }) => valid)).toEqual([true, false, false]);
  });
});
