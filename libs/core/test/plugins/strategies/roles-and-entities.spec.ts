import { describe, expect, it } from '@jest/globals';
import {
  PendingService,
  type LoopRequest,
  type Policy,
  subRunTool,
  type ToolLoopOptions,
  ToolLoopService,
} from '@toolloop/core';
import {
  assumeRoles,
  phases,
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import { play, resultsIn } from '../../fixtures/played-run.js';
import { ask, openModule, openShop } from '../../fixtures/shop.module.js';

const policy: Policy = {
  version: 'v1',
  allow: ['probe__read', 'crm__*'],
  flow: 'off',
  roles: { staff: { allow: ['customer_*_*', 'order_*_*'] }, writer: { allow: ['probe__write'] } },
};

const find = calls(call('crm__searchCustomers', { name: 'Ann' }));
const become = (role: string) => calls(call('probe__read', { key: role }));
const spend = calls(call('customer_c-1_getAverageSpend', {}));
/** Begins as staff; `probe__read` of `guest` and `staff` change that. */
const roles = assumeRoles({
  start: ['staff', 'writer'],
  to: ['guest', 'staff'].map((role) => ({
    when: ({ args }) => args?.['key'] === role,
    roles: role === 'guest' ? [] : ['staff', 'writer'],
  })),
});
const options = { policy, actorRoles: () => ['staff', 'writer'], injection: [roles] };

async function run(
  script: readonly ScriptedTurn[],
  more: Partial<ToolLoopOptions> = {},
  request: Partial<LoopRequest> = {},
) {
  const model = new ScriptedModel(script);
  return { model, ...(await play(await openShop(model, { ...options, ...more }), ask(request))) };
}

describe('the tools of an entity whose role comes back', () => {
  it.each<[NonNullable<ToolLoopOptions['surface']>, ScriptedTurn]>([
    ['named', spend],
    ['grouped', calls(call('customer__getAverageSpend', { id: 'c-1' }))],
    [
      'dispatcher',
      calls(call('entity__call', { entity: 'customer', method: 'getAverageSpend', id: 'c-1' })),
    ],
  ])('come back with it, over the surface %s', async (surface, asked) => {
    const { result, events } = await run(
      [find, become('guest'), become('staff'), asked, text('Done.')],
      { surface },
    );
    expect(result.toolCalls.at(-1)).toMatchObject({
      declaredId: 'customer_*_getAverageSpend',
      status: 'succeeded',
      result: 'acme:c-1:Ann',
    });
    const removed = eventsOf(events, 'tools-removed').flatMap(({ tools }) => tools);
    const back = eventsOf(events, 'tools-injected')
      .filter(({ step }) => step === 4)
      .flatMap(({ tools }) => tools);
    expect(back.toSorted()).toEqual(removed.toSorted());
  });

  it('are in the result once, and take no more room than before', async () => {
    const swings = Array.from({ length: 8 }, () => [become('guest'), become('staff')]).flat();
    const { result } = await run([find, ...swings, spend, text('Done.')], {
      limits: { injectedTools: 4, identicalCalls: 99, steps: 40 },
    });
    const ids = result.injectedTools.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(result.toolCalls.at(-1)).toMatchObject({ status: 'succeeded' });
  });

  it('stay away while they are denied, and a call of them says who gave them', async () => {
    const { result } = await run([find, become('guest'), become('other'), spend, text('Done.')]);
    expect(result.toolCalls.at(-1)).toMatchObject({ error: { code: 'tool_gone' } });
    expect(resultsIn(result.messages).at(-1)).toContain(
      'The actor of the run may not use it at present. Once they may, it comes back; if it does not, call crm__searchCustomers again.',
    );
  });

  it('come back where the run has waited meanwhile', async () => {
    const asking: Policy = { ...policy, requireApproval: [{ tools: ['crm__openCart'] }] };
    const wait = calls(call('crm__openCart', { id: 'k' }));
    const model = new ScriptedModel([
      find,
      become('guest'),
      wait,
      become('staff'),
      spend,
      text('Done.'),
    ]);
    const module = await openModule(model, { ...options, policy: asking });
    const loop: ToolLoopService = module.get(ToolLoopService);
    const { runId } = await loop.run(ask());
    const alice = { actor: { id: 'alice' }, tenant: 'acme' };
    const [{ approvalId } = { approvalId: '' }] = await module.get(PendingService).list(alice);
    await module.get(PendingService).decide({ approvalId, decision: 'approve' }, alice);
    const result = await (await loop.resume(runId, alice)).result;
    expect(result.toolCalls.at(-1)).toMatchObject({
      declaredId: 'customer_*_getAverageSpend',
      status: 'succeeded',
    });
  });
});

describe('a sub-run whose role comes back', () => {
  it('has its tools again, those it found and those it began with', async () => {
    const inner = new ScriptedModel([
      find,
      become('guest'),
      become('staff'),
      calls(call('customer_c-1_getAverageSpend', {}), call('probe__write', { key: 'w' })),
      text('So.'),
    ]);
    const tools = [
      subRunTool({
        id: 'research',
        description: 'Finds out.',
        tools: ['probe__*', 'crm__*', 'customer_*_*'],
        model: inner,
      }),
    ];
    const allowing = { ...policy, allow: [...policy.allow, 'research'] };
    const { result } = await run([calls(call('research', { prompt: 'Go.' })), text('Done.')], {
      tools,
      policy: allowing,
    });
    const own = result.toolCalls[0]?.subRun?.toolCalls ?? [];
    expect(inner.requests.map(({ toolIds }) => toolIds.includes('probe__write'))).toEqual([
      true,
      true,
      false,
      true,
      true,
    ]);
    expect(own.slice(-2).map(({ status }) => status)).toEqual(['succeeded', 'succeeded']);
  });
});

describe('what a strategy took away', () => {
  it('does not come back with a role', async () => {
    const states = {
      one: {
        tools: ['probe__write'],
        to: [
          {
            when: ({ args }: { readonly args?: object }) =>
              Reflect.get(args ?? {}, 'key') === 'next',
            phase: 'two',
          },
        ],
      },
      two: { tools: [] },
    } as const;
    const { model } = await run([become('guest'), become('next'), become('staff'), text('Done.')], {
      injection: [roles, phases({ start: 'one', states })],
    });
    expect(model.requests.map(({ toolIds }) => toolIds.includes('probe__write'))).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });

  it('does not come back with a role either where its words are those of a role that went', async () => {
    const words = 'The actor of the run may not use it at present. Ask a colleague.';
    class Removing extends ToolInjectionStrategy {
      override readonly name = 'removing';
      override evaluate({ last }: ToolInjectionContext): ToolInjection {
        return last.record.args?.['key'] === 'next'
          ? { remove: ['probe__write'], howToGetBack: words }
          : {};
      }
    }
    const write = calls(call('probe__write', { key: 'w' }));
    const { model, result } = await run(
      [become('next'), become('guest'), become('staff'), write, text('Done.')],
      {
        injection: [roles, new Removing()],
      },
    );
    expect(model.requests.map(({ toolIds }) => toolIds.includes('probe__write'))).toEqual([
      true,
      false,
      false,
      false,
      false,
    ]);
    expect(resultsIn(result.messages).at(-1)).toContain(words);
  });
});
