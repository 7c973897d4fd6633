import { afterEach, describe, expect, it } from '@jest/globals';
import type { JsonObject, LoopResult, Policy } from '@toolloop/core';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { AttackApplication } from './attack.application.js';
import { packTools } from './pack-tools.js';
import { loadPacks, OWN_PACKS } from './load-packs.js';
import { RunWorld } from './run.world.js';

const banking = loadPacks(OWN_PACKS).find(({ name }) => name === 'banking');
const running: AttackApplication[] = [];
const atMost25: Policy = {
  allow: ['*'],
  flow: 'off',
  runBudgets: [{ tools: ['bank__transfer'], sum: { argument: '/amount', most: 25 } }],
};
const small = (amount = 9.9): JsonObject => ({ iban: 'LT121000011101001000', amount });

afterEach(async () => {
  await Promise.all(running.splice(0).map((app) => app.close()));
});

/** Plays the calls, of one answer or of one answer each. */
async function transfer(
  amounts: readonly number[],
  how: 'together' | 'apart',
  policy = atMost25,
): Promise<{ result: LoopResult; world: RunWorld }> {
  if (!banking) throw new Error('There is no pack banking.');
  const app = await AttackApplication.start(packTools(banking), policy);
  running.push(app);
  const wanted = amounts.map((amount) => call('bank__transfer', small(amount)));
  const script = how === 'together' ? [calls(...wanted)] : wanted.map((one) => calls(one));
  const world = new RunWorld(banking);
  const { result } = await app.run({
    prompt: 'Go on.',
    model: new ScriptedModel([...script, text('Done.')]),
    context: { world },
  });
  return { result, world };
}

describe('small steps under a threshold', () => {
  it.each(['together', 'apart'] as const)(
    'end where the sum over the run is reached, made %s',
    async (how) => {
      const { result, world } = await transfer([9.9, 9.9, 9.9], how);
      expect(world.rows('transfers')).toHaveLength(2);
      expect(result.toolCalls.map(({ error }) => error?.code)).toEqual([
        undefined,
        undefined,
        'budget_exceeded',
      ]);
      expect(result.toolCalls.at(-1)?.decision).toMatchObject({
        kind: 'deny',
        rule: 'runBudgets[0]',
      });
    },
  );

  it('end by a count as well', async () => {
    const policy: Policy = {
      allow: ['*'],
      flow: 'off',
      runBudgets: [{ tools: ['bank__transfer'], calls: 1 }],
    };
    const { world } = await transfer([1, 1, 1], 'together', policy);
    expect(world.rows('transfers')).toHaveLength(1);
  });

  it('gain nothing by a call that is no valid one', async () => {
    const { world } = await transfer([9.9, -20, 9.9, 9.9], 'apart');
    expect(world.rows('transfers')).toHaveLength(2);
  });

  it('start anew in another run only', async () => {
    const runs = [await transfer([20, 20], 'apart'), await transfer([20, 20], 'apart')];
    expect(runs.map(({ world }) => world.rows('transfers').length)).toEqual([1, 1]);
  });
});
