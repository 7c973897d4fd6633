import { describe, expect, it } from '@jest/globals';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { PolicyService } from '@toolloop/core/runs';
import { alice, bob, desk, once, refund, world } from './bench.js';
import { text } from '@toolloop/testing';

const ops = { actor: { id: 'ops' }, tenant: 'acme' };
const why = { reason: 'The bank is on fire.' };
const operators = (actor: unknown): boolean => (actor as { readonly id: string }).id === 'ops';
const quiet = (ms = 60) => new Promise((resolve) => setTimeout(resolve, ms));

describe('a directive whose tool is stopped', () => {
  it('stays due with all its attempts, and is performed once it is released', async () => {
    const shared = world();
    const asking = await desk(once, { shared, operators, directives: { perform: false } });
    await asking.run();
    const { module, until, bank, entries, service } = await desk([], { shared, operators });
    const policies: PolicyService = module.get(PolicyService);
    await until('succeeded');
    expect(bank.effects).toHaveLength(1);
    const { stopId } = await policies.stop({ tool: 'bank__refund' }, ops, why);
    const held = await desk([refund('o-2'), text('Done.')], {
      shared,
      operators,
      directives: { perform: false },
    });
    await held.run();
    await quiet();
    const [waiting] = await service.list(alice, { subject: 'o-2' });
    expect(waiting).toMatchObject({ status: 'pending', attempts: 0 });
    expect(bank.effects).toHaveLength(1);
    const before = (await entries()).length;
    await quiet();
    expect((await entries()).length).toBe(before);
    await policies.release(stopId, ops, why);
    for (const end = Date.now() + 240_000; bank.effects.length < 2 && Date.now() < end;)
      await quiet(5);
    expect(bank.effects).toMatchObject([{ orderId: 'o-1' }, { orderId: 'o-2' }]);
    await module.close();
  });

  it('is put off where it was stopped between its turn and its decision', async () => {
    const shared = world();
    const { run, module, until, bank, service } = await desk(once, { shared, operators });
    const engine: DataPolicyEngine = module.get(DataPolicyEngine);
    const policies: PolicyService = module.get(PolicyService);
    const find = shared.people.find.bind(shared.people);
    const stops: string[] = [];
    shared.people.find = async (actorId, tenant) => {
      if (stops.length === 0)
        stops.push((await policies.stop({ tool: 'bank__refund' }, ops, why)).stopId);
      return find(actorId, tenant);
    };
    await run();
    while (stops.length === 0) await quiet(5);
    await quiet();
    expect(engine.isHeld('acme', 'bank__refund')).toBe(true);
    expect(bank.effects).toEqual([]);
    expect(await service.list(alice)).toMatchObject([{ status: 'pending', attempts: 0 }]);
    await policies.release(stops[0] ?? '', ops, why);
    await until('succeeded');
    expect(bank.effects).toHaveLength(1);
    await module.close();
  });

  it('is performed meanwhile where it is of another tenant', async () => {
    const { run, module, bank, until } = await desk(once, { operators });
    const policies: PolicyService = module.get(PolicyService);
    await policies.stop({}, ops, why);
    await run(bob);
    await until('succeeded', bob);
    expect(bank.effects).toMatchObject([{ tenant: 'globex' }]);
    await module.close();
  });
});
