import { afterEach, describe, expect, it } from '@jest/globals';
import {
  PendingService,
  LlmTool,
  type LoopRequest,
  type Policy,
  ToolInput,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import type { LoopHooks } from '@toolloop/core/contracts';
import { AuditStore, MemoryAuditStore } from '@toolloop/core/stores';
import type { EntitySurface, ToolInjectionStrategy } from '@toolloop/core/strategies';
import {
  ScriptedModel,
  calls,
  collect,
  eventsOf,
  text,
  type ScriptedCall,
} from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { IsString } from 'class-validator';
import { play, resultOf, resultsIn } from '../../fixtures/played-run.js';
import { Customer, Order } from '../../fixtures/shop.js';
import { ask, openModule, openShop } from '../../fixtures/shop.module.js';
import { SURFACES, over, show, type KnownSurface, type SaidCall } from './surface-calls.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const allowAll: Policy = { allow: ['*'], flow: 'off' };
const spend = (id: string): SaidCall => ({ prefix: 'customer', id, method: 'getAverageSpend' });
const cancel = (id: string): SaidCall => ({ prefix: 'order', id, method: 'cancel' });

const secretOf = (tenant: string) => `${tenant}-7`;
const foundFor = (key: string, { tenant }: { readonly tenant: string }) =>
  new Customer(key === 'own' ? secretOf(tenant) : 'same', key, tenant);

describe.each(SURFACES)('two tenants at once, over the surface %s,', (surface) => {
  it('hold their own instances, and no guess leads to those of the other', async () => {
    const loop = await openShop(new ScriptedModel([]), { policy: allowAll });
    const tenants = Array.from({ length: 6 }, (_, index) => (index % 2 === 0 ? 'acme' : 'globex'));
    const runs = tenants.map((tenant) => {
      const other = secretOf(tenant === 'acme' ? 'globex' : 'acme');
      const guesses = calls(
        over(surface, spend('same')),
        over(surface, spend(secretOf(tenant))),
        over(surface, spend(other)),
      );
      const model = new ScriptedModel([show('own'), show('shared'), guesses, text('Done.')]);
      return play(
        loop,
        ask({ tenant, actor: { id: tenant }, model, surface, context: { act: foundFor } }),
      );
    });
    for (const [index, { result }] of (await Promise.all(runs)).entries()) {
      const tenant = tenants[index] ?? '';
      const [same, own] = resultsIn(result.messages).slice(2);
      expect(same).toBe(`${tenant}:same:shared`);
      expect(own).toBe(`${tenant}:${tenant}-7:own`);
      expect(result.toolCalls[4]).toMatchObject({ status: 'failed' });
      expect(result.toolCalls[4]?.entity).toBeUndefined();
      // What is said to a wrong guess is what the guesser's own run holds, and its own guess.
      const foreign = tenant === 'acme' ? 'globex' : 'acme';
      expect(resultsIn(result.messages).at(-1)?.replaceAll(`${foreign}-7`, '')).not.toContain(
        foreign,
      );
    }
  });

  it('an instance that no tool returned is none, whatever the model sends', async () => {
    const guesses = [
      'zoe',
      'ann ',
      'ANN',
      '',
      '*',
      '../ann',
      'ann\u0000',
      'constructor',
      '__proto__',
      'h1',
    ];
    for (const id of guesses) {
      const model = new ScriptedModel([
        show('ann'),
        calls(over(surface, spend(id))),
        text('Done.'),
      ]);
      const { result } = await play(
        await openShop(model),
        ask({ surface, context: { act: (key: string) => new Customer(key, key) } }),
      );
      expect(result.toolCalls[1]).toMatchObject({ status: 'failed' });
      expect(result.toolCalls[1]?.entity).toBeUndefined();
    }
  });
});

const orders = (key: string) => key.split(',').map((id) => new Order(id, 1));

describe.each(SURFACES)('an approval, over the surface %s,', (surface) => {
  const policy: Policy = { ...allowAll, requireApproval: [{ tools: ['order_*_cancel'] }] };

  async function waiting(...said: ScriptedCall[]) {
    const module = await openModule(
      new ScriptedModel([show('o-1,o-2'), calls(...said), text('Done.')]),
      { policy },
    );
    const request = { ...alice, surface, context: { act: orders } };
    const loop = module.get(ToolLoopService);
    const handle = loop.open({ prompt: 'Cancel.', ...request });
    const events = await collect(handle.events$);
    return { module, loop, events, result: await handle.result, request };
  }

  it('names the declared tool and the instance to the approver, and admits that one call', async () => {
    const { module, loop, events, result, request } = await waiting(
      over(surface, cancel('o-1')),
      over(surface, cancel('o-2')),
    );
    const asked = eventsOf(events, 'approval-request').map(({ approval }) => approval);
    expect(asked).toMatchObject([
      { tool: 'order_o-1_cancel', declaredId: 'order_*_cancel', instanceId: 'o-1', args: {} },
      { tool: 'order_o-2_cancel', declaredId: 'order_*_cancel', instanceId: 'o-2', args: {} },
    ]);
    const service = module.get(PendingService);
    await service.decide({ approvalId: asked[0]?.approvalId ?? '', decision: 'approve' }, alice);
    await service.decide({ approvalId: asked[1]?.approvalId ?? '', decision: 'deny' }, alice);
    const { messages, toolCalls } = await resultOf(await loop.resume(result.runId, request));
    expect(resultsIn(messages).slice(1)).toEqual([
      'cancelled o-1',
      expect.stringContaining('approval_denied'),
    ]);
    expect(toolCalls[1]).toMatchObject({
      id: 'order_o-1_cancel',
      entity: { instanceId: 'o-1' },
      status: 'succeeded',
    });
  });

  it('is not asked for what means no instance', async () => {
    const { result, events } = await waiting(over(surface, cancel('o-9')));
    expect(eventsOf(events, 'approval-request')).toEqual([]);
    expect(result.toolCalls[1]).toMatchObject({ status: 'failed' });
  });
});

class PinInput {
  @IsString() readonly pin!: string;
}

@ToolProvider({ prefix: 'vault' })
class Vault {
  static isOpen: unknown = true;
  @Expose() readonly id: string;
  constructor(id: string) {
    this.id = id;
  }

  @LlmTool({ description: 'Opens it.', effect: 'read_only', reveal: 'all', canCall: 'mayOpen' })
  open(@ToolInput() { pin }: PinInput): string {
    return `${this.id} with ${pin}`;
  }

  mayOpen(): unknown {
    return Vault.isOpen;
  }

  @LlmTool({ description: 'Looks.', effect: 'read_only', reveal: 'all' })
  look(): string {
    return this.id;
  }
}

const vaults = (key: string) => new Vault(key);

afterEach(() => {
  Vault.isOpen = true;
});

describe.each(SURFACES)('over the surface %s', (surface) => {
  const opening: SaidCall = { prefix: 'vault', id: 'v1', method: 'open', args: '{"pin":"1234"}' };

  async function playVault(said: ScriptedCall, request: Partial<LoopRequest>, shop: object = {}) {
    const model = new ScriptedModel([show('v1'), calls(said), text('Done.')]);
    const loop = await openShop(model, { entities: [Vault], ...shop });
    return { ...(await play(loop, ask({ surface, context: { act: vaults }, ...request }))), model };
  }

  it('a strict listing tells of no method whose own word is no', async () => {
    Vault.isOpen = false;
    const { model, result } = await playVault(over(surface, opening), {}, { strictListing: true });
    expect(JSON.stringify(model.requests.map(({ tools }) => tools))).not.toContain('Opens it.');
    expect(result.toolCalls[1]).toMatchObject({
      status: 'failed',
      error: { code: 'unknown_tool' },
    });
  });

  it('a method whose own word is no is denied at the call, and reads like one that does not exist', async () => {
    Vault.isOpen = false;
    const { result } = await playVault(over(surface, opening), {});
    expect(result.toolCalls[1]).toMatchObject({
      status: 'denied',
      declaredId: 'vault_*_open',
      error: { code: 'policy_denied' },
    });
    expect(resultsIn(result.messages)[1]).toContain('unknown_tool');
  });

  it('a run that continues after it waited is listed strictly anew, too', async () => {
    const script = [
      show('v1'),
      calls({ name: 'crm__openCart', arguments: '{"id":"k"}' }),
      calls(over(surface, opening)),
      text('Done.'),
    ];
    const model = new ScriptedModel(script);
    const policy: Policy = { ...allowAll, requireApproval: [{ tools: ['crm__openCart'] }] };
    const module = await openModule(model, { entities: [Vault], strictListing: true, policy });
    const [loop, service] = [module.get(ToolLoopService), module.get(PendingService)];
    const request = { ...alice, surface, context: { act: vaults } };
    const waiting = await loop.run({ prompt: 'Go on.', ...request });
    const [open] = await service.list(alice);
    await service.decide({ approvalId: open?.approvalId ?? '', decision: 'deny' }, alice);
    Vault.isOpen = false;
    const { toolCalls } = await resultOf(await loop.resume(waiting.runId, request));
    expect(JSON.stringify(model.requests[2]?.tools)).not.toContain('Opens it.');
    expect(JSON.stringify(model.requests[2]?.tools.map(({ id }) => id))).toMatch(
      /look|entity__call/,
    );
    expect(toolCalls.at(-1)).toMatchObject({ status: 'failed' });
  });

  it('a policy that was replaced during the step denies earlier tools, in the words of an unknown tool', async () => {
    const module = await openModule(new ScriptedModel([]), { entities: [Vault], policy: allowAll });
    const engine = module.get(DataPolicyEngine);
    const said = (method: string, id = 'v1') => over(surface, { prefix: 'vault', id, method });
    const together = calls(
      said('look'),
      said('look'),
      said('luuk'),
      said('look', 'v9'),
      said('luuk', 'v9'),
    );
    const model = new ScriptedModel([show('v1'), together, text('Done.')]);
    let started = 0;
    const hooks: LoopHooks = {
      onToolStart: () => {
        started += 1;
        if (started === 2) engine.replace({ ...allowAll, deny: ['vault_*_look'] });
      },
    };
    const { messages, toolCalls } = await module.get(ToolLoopService).run(
      ask({
        model,
        surface,
        context: { act: vaults },
        hooks,
        limits: { refusalsInARow: 9, parallelReads: 1 },
      }),
    );
    const [denied = '', unknown = '', deniedOther = '', unknownOther = ''] =
      resultsIn(messages).slice(2);
    expect(denied.replaceAll('look', 'luuk')).toBe(unknown);
    expect(deniedOther.replaceAll('look', 'luuk')).toBe(unknownOther);
    expect(toolCalls[2]).toMatchObject({ status: 'denied', decision: { kind: 'deny' } });
  });
});

describe('arguments that come bit by bit', () => {
  it.each<[EntitySurface, number]>([
    ['named', 1],
    ['grouped', 0],
    ['dispatcher', 0],
  ])(
    'they are shown over the surface %s where they are known to be arguments: %i',
    async (surface: EntitySurface, shown) => {
      const said = over(surface as KnownSurface, spend('ann'));
      const model = new ScriptedModel([show('ann'), calls(said), text('Done.')]);
      const { events } = await play(
        await openShop(model),
        ask({ surface, context: { act: () => new Customer('ann', 'x') } }),
      );
      const deltas = eventsOf(events, 'tool-call-delta').filter(({ step }) => step === 2);
      expect(Math.sign(deltas.length)).toBe(shown);
    },
  );
});

describe('the audit', () => {
  it.each(SURFACES)('names declared tool and instance over the surface %s', async (surface) => {
    const store = new MemoryAuditStore();
    const model = new ScriptedModel([
      show('ann'),
      calls(over(surface, spend('ann'))),
      text('Done.'),
    ]);
    const audit = { key: [{ id: '1', secret: 'a secret that is long enough for an hmac' }] };
    const loop = await openShop(model, {
      audit,
      providers: [{ provide: AuditStore, useValue: store }],
    });
    await play(loop, ask({ surface, context: { act: () => new Customer('ann', 'x') } }));
    const kept = JSON.stringify(await store.read('acme', { from: 1, limit: 100 }));
    expect(kept).toContain('customer_*_getAverageSpend');
    expect(kept.match(/instanceId[\\":]+ann/g)).toHaveLength(2);
    expect(kept).not.toContain('entity__call');
  });
});

describe.each(SURFACES)('a quota of the tenant, over the surface %s,', (surface) => {
  it('is not used up by a call that means no instance', async () => {
    const model = new ScriptedModel([
      show('ann'),
      calls(over(surface, spend('zoe'))),
      calls(over(surface, spend('ann'))),
      text('Done.'),
    ]);
    const loop = await openShop(model, {
      quotas: [{ quantity: 'calls', most: 2, windowMs: 3_600_000 }],
    });
    const { result } = await play(
      loop,
      ask({ surface, context: { act: () => new Customer('ann', 'x') } }),
    );
    expect(result.toolCalls.map(({ status }) => status)).toEqual([
      'succeeded',
      'failed',
      'succeeded',
    ]);
  });
});

it('the policy decides anew about a tool that shares its declared id with another and differs from it', async () => {
  const strategy: ToolInjectionStrategy = {
    name: 'two of one id',
    evaluate: ({ withheld }) => ({
      add: withheld.all.flatMap((tool) => [
        { ...tool, spec: { ...tool.spec, id: 'mild' } },
        { ...tool, spec: { ...tool.spec, id: 'wild', effect: 'external_side_effect' as const } },
      ]),
    }),
    withheld: ['probe__read'],
  };
  const model = new ScriptedModel([show('x'), text('Done.')]);
  const policy: Policy = { allow: ['*'], effects: ['read_only'] };
  const { result } = await play(
    await openShop(model),
    ask({ policy, injection: [strategy], context: { act: () => 'x' } }),
  );
  expect(result.injectedTools.map(({ id }) => id)).toEqual(['mild']);
});
