import { describe, expect, it } from '@jest/globals';
import {
  PendingService,
  type LoopResult,
  type Policy,
  type ToolLoopOptions,
  ToolLoopService,
} from '@toolloop/core';
import { type RunEntry, RunOpener } from '@toolloop/core/internal';
import { ScriptedModel, call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import { resultOf } from '../../fixtures/played-run.js';
import { ask, openModule } from '../../fixtures/shop.module.js';
import { KeptJournal } from '../sub-runs/kept-journal.js';
import { research, stage, toldOf } from '../sub-runs/stage.js';

/** With it every built answer costs 0.6 USD. */
const PRICE = { inputPerMillion: 40_000, outputPerMillion: 40_000 };
const prices = { dear: PRICE, inner: PRICE, outer: PRICE };
const read = (key: string) => calls(call('probe__read', { key }));
const open = (script: readonly ScriptedTurn[], options: Partial<ToolLoopOptions> = { prices }) =>
  openModule(new ScriptedModel(script, { modelId: 'dear' }), options);

async function runOf(
  script: readonly ScriptedTurn[],
  usd: number,
  options?: Partial<ToolLoopOptions>,
): Promise<LoopResult> {
  const loop: ToolLoopService = (await open(script, options)).get(ToolLoopService);
  return resultOf(loop.open(ask({ limits: { usd } })));
}

describe('limits.usd', () => {
  it('ends the run with `budget` once it has cost more, and lets the step come to its end', async () => {
    const result = await runOf([read('a'), read('b')], 1);
    expect(result).toMatchObject({
      finishReason: 'budget',
      finishDetail: 'The run may cost 1 USD.',
      steps: 2,
    });
    expect(result.toolCalls).toMatchObject([{ status: 'succeeded' }, { status: 'succeeded' }]);
  });

  it('does not take a final answer away, and is none by default', async () => {
    expect(await runOf([text('Done.')], 0.1)).toMatchObject({ finishReason: 'stop' });
    expect(await runOf([read('a'), text('Done.')], Infinity, {})).toMatchObject({
      finishReason: 'stop',
    });
  });

  it('is an option of the application, too', async () => {
    const loop: ToolLoopService = (await open([read('a')], { prices, limits: { usd: 0.5 } })).get(
      ToolLoopService,
    );
    expect(await resultOf(loop.open(ask()))).toMatchObject({ finishReason: 'budget' });
  });

  it('ends the run when its cost is unknown', async () => {
    const finishDetail = 'The run may cost 50 USD, and what it has cost is not known.';
    expect(await runOf([read('a')], 50, {})).toMatchObject({
      finishReason: 'budget',
      finishDetail,
    });
  });
});

describe('limits.usd of a run that has waited', () => {
  const policy: Policy = {
    version: 'v1',
    allow: ['*'],
    flow: 'off',
    requireApproval: [{ tools: ['probe__send'] }],
  };
  const script = [read('a'), calls(call('probe__send', { key: 'b' })), text('Done.')];
  const alice = { actor: { id: 'alice' }, tenant: 'acme' };

  it.each<[string, number, Partial<ToolLoopOptions>, LoopResult['finishReason']]>([
    ['counts what it cost before', 1, { prices }, 'budget'],
    ['knows that its cost before is unknown', 50, {}, 'budget'],
    ['leaves it alone below', 50, { prices }, 'stop'],
  ])('%s', async (_, usd, options, finishReason) => {
    const module = await open(script, { ...options, policy });
    const loop: ToolLoopService = module.get(ToolLoopService);
    const { runId } = await loop.run(ask());
    const [{ approvalId } = { approvalId: '' }] = await module.get(PendingService).list(alice);
    await module.get(PendingService).decide({ approvalId, decision: 'approve' }, alice);
    const { result } = await loop.resume(runId, { ...alice, limits: { usd } });
    expect(await result).toMatchObject({ finishReason });
  });
});

/** By each number of entries that may have been written down. */
const upTo = (entries: readonly RunEntry[]) =>
  entries.map((_, index) => entries.slice(0, index + 1));

describe('limits.usd of a run that is taken over', () => {
  it.each<[string, Partial<ToolLoopOptions>]>([
    ['counts what it cost, sub-runs included', { prices }],
    ['knows that their cost is unknown', { prices: { outer: PRICE } }],
  ])('%s, whichever entry was the last', async (_, options) => {
    // Passed by the third answer, the second within; or, without a price, by the first one there.
    const usd = options.prices?.inner ? 1.5 : 50;
    const play = async (entries: readonly RunEntry[], inner: readonly ScriptedTurn[]) => {
      const { module, request } = await stage({
        outer: [research(), text('Told.')],
        inner,
        options,
      });
      const journal = new KeptJournal([...entries]);
      const kept = { runId: 'run-1', loop: undefined, journal, entries };
      const result = await module
        .get<RunOpener>(RunOpener)
        .openDurable(request({ limits: { usd } }), kept).result;
      return { result, journal };
    };
    const { result: whole, journal } = await play([], [read('a'), read('b')]);
    expect(whole.finishReason).toBe('budget');
    for (const entries of upTo(journal.flush()).filter(
      (one) => !one.at(-1)?.key.startsWith('end:'),
    )) {
      const answered = entries.filter(({ key }) => /\/model:/.test(key)).length;
      const { result } = await play(entries, [read('a'), read('b')].slice(answered));
      expect([entries.at(-1)?.key, result.finishReason, toldOf(result)]).toEqual([
        entries.at(-1)?.key,
        'budget',
        toldOf(whole),
      ]);
    }
  });
});
