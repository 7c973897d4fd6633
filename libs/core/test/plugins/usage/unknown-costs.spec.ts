import { describe, expect, it } from '@jest/globals';
import {
  PendingService,
  type LoopResult,
  type Policy,
  subRunTool,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  type Usage,
} from '@toolloop/core';
import { priced } from '@toolloop/core/models';
import { MemoryUsageStore, type Quota, UsageStore } from '@toolloop/core/stores';
import { ScriptedModel, call, calls, events, text, type ScriptedTurn } from '@toolloop/testing';
import { RecordingLogger, SilentModel, start } from '../../tools/application.js';
import { resultOf } from '../../fixtures/played-run.js';
import { ask, openModule, openShop } from '../../fixtures/shop.module.js';

const PRICE = { inputPerMillion: 1, outputPerMillion: 1 };
const TOKENS: Usage = { inputTokens: 1, outputTokens: 1 };
const policyOf = (runBudgets: NonNullable<Policy['runBudgets']>): Policy => ({
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  runBudgets,
});
const inUsd = policyOf([{ usd: 5 }]);

/** An answer that reads, and says what it used, if anything. */
function reads(key: string, usage?: Usage): ScriptedTurn {
  return events([
    { type: 'tool-call', toolCallId: key, name: 'probe__read', arguments: JSON.stringify({ key }) },
    ...(usage ? [{ type: 'usage', usage } as const] : []),
    { type: 'finish', finishReason: 'tool_calls' },
  ]);
}

async function runOf(
  script: readonly ScriptedTurn[],
  options: Partial<ToolLoopOptions>,
): Promise<LoopResult> {
  return resultOf(
    (await openShop(new ScriptedModel(script, { modelId: 'dear' }), options)).open(ask()),
  );
}

const codes = ({ toolCalls }: LoopResult) => toolCalls.map(({ error }) => error?.code);

describe('a budget in USD', () => {
  it.each<[string, readonly ScriptedTurn[]]>([
    ['reports no cost', [reads('a', TOKENS), text('Done.')]],
    ['reports nothing at all', [reads('a'), text('Done.')]],
  ])('lets no call through where a model %s, and says why', async (_, script) => {
    const result = await runOf(script, { policy: inUsd });
    expect(result.toolCalls).toMatchObject([
      {
        error: {
          code: 'budget_exceeded',
          safeMessage: 'The cost of the run is unknown, and its limit is 5 USD.',
        },
      },
    ]);
  });

  it('lets no call through once one answer has no cost', async () => {
    const result = await runOf(
      [reads('a', { ...TOKENS, costUsd: 1 }), reads('b', TOKENS), text('Done.')],
      { policy: inUsd },
    );
    expect(codes(result)).toEqual([undefined, 'budget_exceeded']);
  });

  it('holds where the model has a price', async () => {
    const result = await runOf([reads('a', TOKENS), text('Done.')], {
      policy: inUsd,
      prices: { dear: PRICE },
    });
    expect(codes(result)).toEqual([undefined]);
  });

  it('asks instead, where it says so', async () => {
    const result = await runOf([reads('a', TOKENS)], {
      policy: policyOf([{ usd: 5, beyond: 'ask' }]),
    });
    expect(result.finishReason).toBe('waiting');
  });

  it('gives no money back for a cost that is negative', async () => {
    const script = [
      reads('a', { ...TOKENS, costUsd: 4 }),
      reads('b', { ...TOKENS, costUsd: -9 }),
      reads('c', { ...TOKENS, costUsd: 2 }),
      text('Done.'),
    ];
    expect(codes(await runOf(script, { policy: inUsd }))).toEqual([
      undefined,
      undefined,
      'budget_exceeded',
    ]);
  });

  it('knows of an answer without a cost after the run has waited, too', async () => {
    const policy: Policy = { ...policyOf([]), requireApproval: [{ tools: ['probe__read'] }] };
    const module = await openModule(new ScriptedModel([reads('a', TOKENS), text('Done.')]), {
      policy,
    });
    const loop: ToolLoopService = module.get(ToolLoopService);
    const { runId } = await loop.run(ask());
    const alice = { actor: { id: 'alice' }, tenant: 'acme' };
    const [{ approvalId } = { approvalId: '' }] = await module.get(PendingService).list(alice);
    await module.get(PendingService).decide({ approvalId, decision: 'approve' }, alice);
    const { result } = await loop.resume(runId, { ...alice, policy: inUsd });
    expect(codes(await result)).toEqual(['budget_exceeded']);
  });
});

/** What is logged as a warning. */
const told = async (
  options: Partial<ToolLoopOptions>,
  loops: Parameters<typeof ToolLoopModule.forFeature>[0] = {},
) => {
  const logger = new RecordingLogger();
  await start({ options, logger, imports: [ToolLoopModule.forFeature(loops)] });
  return logger.warnings().map(({ message }) => String(message));
};

describe('the start of an application whose budget is in USD', () => {
  const model = new SilentModel();

  it('says which models have no price', async () => {
    const [warning] = await told({
      policy: inUsd,
      models: { other: new ScriptedModel([], { modelId: 'dear' }) },
      prices: { dear: PRICE },
    });
    expect(warning).toContain('there is no price for silent/silent. Unless');
  });

  it('says it of a loop', async () => {
    const [warning] = await told(
      { prices: { silent: PRICE } },
      { loops: { a: { policy: inUsd, model: new ScriptedModel([], { modelId: 'dear' }) } } },
    );
    expect(warning).toContain('/dear. Unless');
  });

  it.each<[string, Partial<ToolLoopOptions>, Parameters<typeof ToolLoopModule.forFeature>[0]]>([
    ['the application', { limits: { usd: 5 } }, {}],
    ['a loop', {}, { loops: { a: { limits: { usd: 5 } } } }],
    [
      'a sub-run',
      {
        tools: [
          subRunTool({ id: 'research', description: 'Finds out.', tools: [], limits: { usd: 5 } }),
        ],
      },
      {},
    ],
    [
      'a policy of a sub-run',
      {
        tools: [
          subRunTool({ id: 'research', description: 'Finds out.', tools: [], policy: inUsd }),
        ],
      },
      {},
    ],
  ])('says it of a limit or a budget of %s', async (_, options, loops) => {
    const [warning] = await told({ policy: policyOf([]), ...options }, loops);
    expect(warning).toContain('there is no price for silent/silent. Unless');
  });

  it.each<[string, Partial<ToolLoopOptions>]>([
    ['without a limit', { policy: policyOf([]), limits: { usd: Infinity } }],
    ['where they have', { policy: inUsd, prices: { 'silent/silent': PRICE } }],
    ['where they bring their own', { policy: inUsd, model: priced(model, { silent: PRICE }) }],
    ['without such a budget', { policy: policyOf([{ calls: 1 }]) }],
  ])('says nothing %s', async (_, options) => {
    expect(await told(options)).toEqual([]);
  });
});

describe('what is no number', () => {
  const broken: Usage = { inputTokens: NaN, outputTokens: 1, costUsd: NaN };

  it.each([{ tokens: 1_000 }, { usd: 5 }])('is beyond the budget %j', async (budget) => {
    expect(
      codes(await runOf([reads('a', broken), text('Done.')], { policy: policyOf([budget]) })),
    ).toEqual(['budget_exceeded']);
  });

  it('is beyond a limit of tokens, where there is one', async () => {
    expect(
      await runOf([reads('a', broken), text('Done.')], { limits: { tokens: 1_000 } }),
    ).toMatchObject({ finishReason: 'budget' });
    expect(await runOf([reads('a', broken), text('Done.')], {})).toMatchObject({
      finishReason: 'stop',
    });
  });

  it.each<Quota['quantity']>(['tokens', 'usd'])(
    'ends the run under a quota of %s, and poisons no window',
    async (quantity) => {
      const store = new MemoryUsageStore();
      const quotas: readonly Quota[] = [{ quantity, most: 1_000, windowMs: 3_600_000 }];
      const model = new ScriptedModel([reads('a', broken), text('Done.')]);
      const loop = await openShop(model, {
        quotas,
        providers: [{ provide: UsageStore, useValue: store }],
      });
      expect(await resultOf(loop.open(ask()))).toMatchObject({
        finishReason: 'error',
        error: { code: 'internal' },
      });
      expect(await store.totals('acme', [{ quantity, windowMs: 3_600_000 }])).toEqual([
        quantity === 'tokens' ? 1 : 0,
      ]);
      const next = new ScriptedModel([calls(call('probe__read', { key: 'b' })), text('Done.')]);
      expect(await resultOf(loop.open(ask({ model: next })))).toMatchObject({
        finishReason: 'stop',
      });
    },
  );
});
