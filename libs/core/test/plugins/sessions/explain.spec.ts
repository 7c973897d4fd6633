import { afterEach, describe, expect, it } from '@jest/globals';
import type { TestingModule } from '@nestjs/testing';
import {
  LlmTool,
  type Policy,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { AuditStore, MemoryUsageStore, UsageStore } from '@toolloop/core/stores';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { start } from '../../tools/application.js';

@ToolProvider({ prefix: 'deal' })
class Deal {
  @Expose() readonly id = 'd-1';

  @LlmTool({ description: 'Its worth.', effect: 'read_only', reveal: 'all' })
  worth(): number {
    return 1;
  }
}

@ToolProvider({ namespace: 'desk' })
class DeskTools {
  @LlmTool({ description: 'Finds.', effect: 'read_only', output: Deal })
  find(): Deal {
    return new Deal();
  }

  @LlmTool({ description: 'Pays.', effect: 'state_change', reveal: 'all' })
  pay(@ToolParam('amount', { description: 'How much.' }) amount: number): string {
    return `paid ${amount}`;
  }

  @LlmTool({
    description: 'Closes.',
    effect: 'state_change',
    reveal: 'all',
    canCall: ({ actor }) => (actor as { id: string }).id === 'mia',
  })
  close(): string {
    return 'closed';
  }

  @LlmTool({
    description: 'Ships.',
    effect: 'state_change',
    reveal: 'all',
    when: ({ tenant }) => tenant === 'globex',
  })
  ship(): string {
    return 'shipped';
  }
}

const policy: Policy = {
  version: 'v7',
  allow: ['desk__find', 'desk__close', 'desk__ship', 'deal_*_*'],
  roles: { manager: { allow: ['desk__pay'] } },
  requireApproval: [{ tools: ['desk__pay'] }],
  flow: 'off',
};

const clerk = { actor: { id: 'cleo', roles: [] as string[] }, tenant: 'acme' };
const mia = { actor: { id: 'mia', roles: ['manager'] }, tenant: 'acme' };
const ops = { actor: { id: 'olga', roles: ['ops'] }, tenant: 'acme' };

let module: TestingModule | undefined;

afterEach(async () => {
  await module?.close();
  module = undefined;
});

/** One that may be away for a while. */
class PassingUsageStore extends MemoryUsageStore {
  isGone = false;

  override totals(...asked: Parameters<MemoryUsageStore['totals']>): Promise<readonly number[]> {
    return this.isGone ? Promise.reject(new Error('It is gone.')) : super.totals(...asked);
  }
}

async function desk(options: Partial<ToolLoopOptions> = {}) {
  const usage = new PassingUsageStore();
  module = await start({
    providers: [DeskTools, { provide: UsageStore, useValue: usage }],
    imports: [ToolLoopModule.forFeature({ entities: [Deal] })],
    options: {
      policy,
      audit: { key: 'k'.repeat(32) },
      operators: (actor, action) =>
        action === 'explain' && (actor as { roles: string[] }).roles.includes('ops'),
      ...options,
    },
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const entries = (tenant: string) => module?.get(AuditStore).read(tenant, { from: 1, limit: 100 });
  const stops = async (tool: string, request: object) => {
    const { isListed, isCallable, reasons } = await loop.explain(tool, {
      ...clerk,
      operator: ops,
      ...request,
    });
    return { isListed, isCallable, by: reasons.filter(({ holds }) => !holds).map(({ by }) => by) };
  };
  return { loop, entries, stops, usage };
}

describe('loop.explain', () => {
  it('gives every reason in its order, with the rule and the version of the policy', async () => {
    const { loop } = await desk();
    const { reasons, ...verdict } = await loop.explain('desk__pay', { ...mia, operator: ops });
    expect(verdict).toEqual({ declaredId: 'desk__pay', isListed: true, isCallable: 'asks' });
    expect(reasons.map(({ by, holds }) => [by, holds])).toEqual([
      ['source', true],
      ['selection', true],
      ['selection', true],
      ['policy', true],
    ]);
    expect(reasons.at(-1)?.decision).toMatchObject({
      kind: 'require_approval',
      policyVersion: 'v7',
    });
  });

  it.each<[string, string, object, object]>([
    ['a role is missing', 'desk__pay', {}, { isListed: false, isCallable: false, by: ['policy'] }],
    [
      'the request leaves it out',
      'desk__find',
      { exclude: ['desk__find'] },
      { isListed: false, isCallable: true, by: ['selection'] },
    ],
    [
      'its `when` keeps it out',
      'desk__ship',
      {},
      { isListed: false, isCallable: true, by: ['when'] },
    ],
    [
      'its `canCall` keeps the actor out',
      'desk__close',
      {},
      { isListed: true, isCallable: false, by: ['canCall'] },
    ],
    ['nothing does', 'desk__close', mia, { isListed: true, isCallable: true, by: [] }],
    [
      'it comes with an entity',
      'deal_*_worth',
      {},
      { isListed: false, isCallable: true, by: ['entity'] },
    ],
  ])('says what keeps a tool out where %s', async (_, tool, request, expected) => {
    const { stops } = await desk();
    expect(await stops(tool, request)).toEqual(expected);
  });

  it('says which quota of the tenant has nothing left, and that a call is refused where quotas cannot be counted', async () => {
    const hour = { quantity: 'calls', windowMs: 3_600_000 } as const;
    const day = { quantity: 'tokens', most: 1_000, windowMs: 86_400_000 } as const;
    const { loop, stops, usage } = await desk({ quotas: [{ ...hour, most: 1 }, day] });
    expect(await stops('desk__find', {})).toEqual({ isListed: true, isCallable: true, by: [] });
    await loop.call({ ...clerk, tool: 'desk__find' });
    const { reasons } = await loop.explain('desk__find', { ...clerk, operator: ops });
    expect(reasons.slice(-2)).toEqual([
      {
        by: 'quota',
        holds: false,
        reason: "The tenant's quota of 1 calls in 3600000 ms is used up.",
      },
      {
        by: 'quota',
        holds: true,
        reason: "The tenant's quota of 1000 tokens in 86400000 ms has some left.",
      },
    ]);
    expect(await stops('desk__find', {})).toEqual({
      isListed: true,
      isCallable: false,
      by: ['quota'],
    });
    expect(await stops('desk__find', { tenant: 'acme', actor: mia.actor })).toMatchObject({
      isCallable: false,
    });
    usage.isGone = true;
    expect(await stops('desk__find', {})).toEqual({
      isListed: true,
      isCallable: false,
      by: ['quota'],
    });
  });

  it('is for operators, in their own tenant, and each use is in the audit', async () => {
    const { loop, entries } = await desk();
    await expect(loop.explain('desk__pay', clerk)).rejects.toMatchObject({ code: 'not_permitted' });
    await expect(
      loop.explain('desk__pay', { ...clerk, tenant: 'globex', operator: ops }),
    ).rejects.toMatchObject({ code: 'not_permitted' });
    await loop.explain('desk__pay', { ...clerk, operator: ops });
    expect(
      (await entries('acme'))?.map((entry) => [entry.kind, 'granted' in entry && entry.granted]),
    ).toEqual([
      ['operator', false],
      ['operator', false],
      ['operator', true],
    ]);
    expect(await entries('globex')).toEqual([]);
  });

  it('refuses an unknown tool with the closest ids', async () => {
    const { loop } = await desk();
    await expect(loop.explain('desk__pai', { ...clerk, operator: ops })).rejects.toThrow(
      'desk__pay',
    );
  });
});

describe('loop.explainCall', () => {
  it('tells why a call was asked about and how it was denied, and nothing of another tenant', async () => {
    const model = new ScriptedModel([
      calls(call('desk__pay', { amount: 5 }), call('desk__close')),
      text('Done.'),
    ]);
    const { loop } = await desk({ model });
    const { runId, toolCalls } = await loop.run({ prompt: 'Pay.', ...mia, approvals: 'deny' });
    const toolCallId = toolCalls[0]?.toolCallId ?? '';
    const { declaredId, events } = await loop.explainCall({ runId, toolCallId, operator: ops });
    expect(declaredId).toBe('desk__pay');
    expect(events[0]).toMatchObject({
      kind: 'decision',
      decision: { kind: 'require_approval', policyVersion: 'v7' },
    });
    expect(events.at(-1)).toMatchObject({ kind: 'denied', code: 'approval_denied' });
    expect(JSON.stringify(events)).not.toContain('"amount"');
    await expect(
      loop.explainCall({ runId, toolCallId, operator: { ...ops, tenant: 'globex' } }),
    ).rejects.toMatchObject({
      code: 'unknown_run',
    });
    await expect(loop.explainCall({ runId, toolCallId, operator: mia })).rejects.toMatchObject({
      code: 'not_permitted',
    });
  });
});
