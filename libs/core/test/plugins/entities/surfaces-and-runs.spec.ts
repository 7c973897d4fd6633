import { describe, expect, it } from '@jest/globals';
import { type Policy, subRunTool } from '@toolloop/core';
import { unlock } from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import { Bank, openBank, sharedStores } from '../../fixtures/accounts.js';
import { play, resultOf, resultsIn } from '../../fixtures/played-run.js';
import { Customer } from '../../fixtures/shop.js';
import { ask, openShop } from '../../fixtures/shop.module.js';
import { research, stage } from '../sub-runs/stage.js';
import { SURFACES, over, show, type KnownSurface, type SaidCall } from './surface-calls.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const spend = (id: string): SaidCall => ({ prefix: 'customer', id, method: 'getAverageSpend' });
const recent = (id: string): SaidCall => ({ prefix: 'customer', id, method: 'getRecentOrders' });
const account = (id: string) => calls(call('bank__account', { id }));
const people = (key: string) => key.split(',').map((id) => new Customer(id, id.toUpperCase()));

/** A run that waits in one process and goes on in another, where nothing live is left of it. */
async function resumedElsewhere(
  surface: KnownSurface,
  after: readonly ScriptedTurn[],
  hasResolver: boolean,
) {
  const policy: Policy = {
    allow: ['*'],
    flow: 'off',
    requireApproval: [{ tools: ['bank__note'] }],
  };
  const bank = new Bank(
    { id: 'a', tenant: 'acme', balance: 10 },
    { id: 'x/1', tenant: 'acme', balance: 30 },
  );
  const stores = sharedStores();
  const kind = hasResolver ? 'account' : 'vault';
  const begin = [
    calls(call(`bank__${kind}`, { id: 'a' })),
    calls(call('bank__note', { text: 'x' })),
  ];
  const [before, behind] = [new ScriptedModel(begin), new ScriptedModel([...after, text('Done.')])];
  const one = await openBank(bank, before, { policy, stores });
  const first = await resultOf(one.loop.open({ prompt: 'Go.', ...alice, surface }));
  await one.approve(alice);
  const two = await openBank(bank, behind, { policy, stores });
  const result = await resultOf(await two.loop.resume(first.runId, { ...alice, surface }));
  return { result, before, behind, bank };
}

describe.each(SURFACES)(
  'a run that continues in another process, over the surface %s,',
  (surface) => {
    it('has the same bytes, and finds the instance a resolver knows when it is called', async () => {
      const visit = calls(over(surface, { prefix: 'account', id: 'a', method: 'getBalance' }));
      const { result, before, behind, bank } = await resumedElsewhere(surface, [visit], true);
      expect(JSON.stringify(behind.requests[0]?.tools)).toBe(
        JSON.stringify(before.requests[1]?.tools),
      );
      expect(result.toolCalls.at(-1)).toMatchObject({
        status: 'succeeded',
        id: 'account_a_getBalance',
        entity: { instanceId: 'a' },
      });
      expect(bank.asked).toHaveLength(1);
    });

    it('says which tool gave an instance that its resolver no longer finds', async () => {
      const visit = calls(over(surface, { prefix: 'vault', id: 'a', method: 'close' }));
      const { result, before, behind } = await resumedElsewhere(surface, [visit], false);
      expect(result.toolCalls.at(-1)).toMatchObject({
        status: 'failed',
        error: { code: 'tool_gone' },
      });
      expect(resultsIn(result.messages).at(-1)).toContain(
        'To get it back, call bank__vault again.',
      );
      // A surface says nothing of any instance, so it stays.
      expect(
        JSON.stringify(behind.requests[0]?.tools) === JSON.stringify(before.requests[1]?.tools),
      ).toBe(surface !== 'named');
    });
  },
);

describe.each(SURFACES)('roles that change during a run, over the surface %s,', (surface) => {
  const policy: Policy = {
    allow: ['probe__*', 'customer_*_getRecentOrders'],
    flow: 'off',
    roles: { staff: { allow: ['customer_*_getAverageSpend'] } },
  };

  it('take away the methods that the actor may no longer call, and leave the others', async () => {
    const roles = new Set(['staff']);
    const said = calls(over(surface, spend('ann')));
    const model = new ScriptedModel([
      show('ann'),
      said,
      said,
      calls(over(surface, recent('ann'))),
      text('Done.'),
    ]);
    const loop = await openShop(model, { policy, actorRoles: () => [...roles] });
    const hooks = {
      onIteration: ({ step }: { readonly step: number }) =>
        step === 2 ? void roles.delete('staff') : undefined,
    };
    const { result, events } = await play(loop, ask({ surface, context: { act: people }, hooks }));
    expect(result.toolCalls.map(({ status }) => status)).toEqual([
      'succeeded',
      'succeeded',
      'failed',
      'succeeded',
    ]);
    expect(eventsOf(events, 'tools-removed')).toMatchObject([
      { reason: 'roles', tools: expect.arrayContaining(['customer_ann_getAverageSpend']) },
    ]);
    expect(
      model.requests[3]?.toolIds.some(
        (id) => id.includes('getRecentOrders') || id === 'entity__call',
      ),
    ).toBe(true);
  });

  it('bring them back with the entity', async () => {
    const roles = new Set<string>();
    const said = calls(over(surface, spend('ann')));
    const model = new ScriptedModel([show('ann'), show('ann'), said, text('Done.')]);
    const loop = await openShop(model, { policy, actorRoles: () => [...roles] });
    const hooks = {
      onIteration: ({ step }: { readonly step: number }) => void (step === 1 && roles.add('staff')),
    };
    const { result } = await play(loop, ask({ surface, context: { act: people }, hooks }));
    expect(result.toolCalls.at(-1)).toMatchObject({
      status: 'succeeded',
      declaredId: 'customer_*_getAverageSpend',
    });
  });
});

describe.each(SURFACES)('a run within a run, over the surface %s,', (surface) => {
  it('calls the instances of the run around it, and of their methods those it may', async () => {
    const inner = [
      calls(over(surface, spend('ann')), over(surface, recent('ann'))),
      text('Found.'),
    ];
    const tools = ['customer_*_getAverageSpend'];
    const scene = await stage({
      outer: [show('ann'), research(), text('Told.')],
      inner,
      subRun: { tools },
    });
    const { result } = await scene.play({ surface, context: { act: people } });
    const within = result.toolCalls[1]?.subRun?.toolCalls;
    expect(within?.map(({ status, id }) => [status, id])).toEqual([
      ['succeeded', 'customer_ann_getAverageSpend'],
      ['failed', expect.anything()],
    ]);
    expect(JSON.stringify(scene.inner.requests[0]?.tools)).not.toContain('most recent orders');
  });

  it('keeps to itself what it found', async () => {
    const inner = [show('bob'), calls(over(surface, spend('bob'))), text('Found.')];
    const outer = [
      show('ann'),
      research(),
      calls(over(surface, spend('bob')), over(surface, spend('ann'))),
      text('Told.'),
    ];
    const scene = await stage({ outer, inner, subRun: { tools: ['probe__show', 'customer_*_*'] } });
    const { result } = await scene.play({ surface, context: { act: people } });
    expect(result.toolCalls[1]?.subRun?.toolCalls?.map(({ status }) => status)).toEqual([
      'succeeded',
      'succeeded',
    ]);
    expect(result.toolCalls.slice(2).map(({ status }) => status)).toEqual(['failed', 'succeeded']);
  });
});

describe.each(SURFACES)(
  'a sub-run that continues in another process, over the surface %s,',
  (surface) => {
    it('has none of the instances that it let go of, though the run around it has them', async () => {
      const policy: Policy = {
        version: 'v1',
        allow: ['*'],
        flow: 'off',
        requireApproval: [{ tools: ['bank__note'] }],
      };
      const bank = new Bank(...['a', 'b'].map((id) => ({ id, tenant: 'acme', balance: 10 })));
      const stores = sharedStores();
      const balances = calls(
        ...['a', 'b'].map((id) => over(surface, { prefix: 'account', id, method: 'getBalance' })),
      );
      const within = async (outer: readonly ScriptedTurn[], inner: readonly ScriptedTurn[]) => {
        const model = new ScriptedModel(inner);
        const tools = [
          subRunTool({
            id: 'research',
            description: 'Finds out.',
            tools: ['bank__*', 'account_*_*'],
            model,
          }),
        ];
        return openBank(bank, new ScriptedModel(outer), {
          policy,
          stores,
          surface,
          tools,
          limits: { injectedInstances: 1 },
        });
      };
      const one = await within(
        [account('a'), research()],
        [account('b'), calls(call('bank__note', { text: 'x' }))],
      );
      const { runId } = await one.loop.run({ prompt: 'Go.', ...alice });
      await one.approve(alice);
      const two = await within([balances, text('Done.')], [balances, text('So.')]);
      const { toolCalls } = await resultOf(await two.loop.resume(runId, alice));
      const codesOf = (records: typeof toolCalls = []) =>
        records.slice(2).map(({ error }) => error?.code);
      expect(codesOf(toolCalls[1]?.subRun?.toolCalls)).toEqual(['tool_gone', undefined]);
      expect(codesOf(toolCalls)[0]).toBeUndefined();
    });
  },
);

/** What a run within a run is shown whose list is a glob. */
async function dispatcherWithin(exclude: readonly string[]) {
  const scene = await stage({ inner: [text('Found.')], subRun: { tools: ['*'], exclude } });
  await scene.play({ surface: 'dispatcher' });
  return scene.inner.requests[0]?.tools.find(({ id }) => id === 'entity__call');
}

describe('the dispatcher of a run within a run whose list is a glob', () => {
  it('tells of what may be called there alone', async () => {
    const dispatcher = await dispatcherWithin([
      'customer_*_getAverageSpend',
      'order_*_*',
      'cart_*_*',
    ]);
    expect(dispatcher?.description).toContain('getRecentOrders');
    expect(dispatcher?.description).not.toMatch(/getAverageSpend|cart/);
  });

  it('is not there where nothing may be', async () => {
    expect(await dispatcherWithin(['customer_*_*', 'order_*_*', 'cart_*_*'])).toBeUndefined();
  });
});

it('a strategy sees the tools of entities under their own ids, whatever they are called over', async () => {
  for (const surface of SURFACES) {
    const seen: string[][] = [];
    const watching = {
      name: 'watching',
      evaluate: ({ toolset }: { readonly toolset: readonly { readonly id: string }[] }) => {
        seen.push(toolset.map(({ id }) => id));
        return {};
      },
    };
    const model = new ScriptedModel([show('ann'), text('Done.')]);
    const loop = await openShop(model);
    await play(
      loop,
      ask({
        surface,
        context: { act: people },
        injection: [
          watching,
          unlock({ after: 'probe__show', remove: ['customer_*_getRecentOrders'] }),
        ],
      }),
    );
    expect(seen[0]).toContain('customer_ann_getRecentOrders');
  }
});
