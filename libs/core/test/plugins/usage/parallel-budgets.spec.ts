import { describe, expect, it } from '@jest/globals';
import type { Policy, ToolInvocationRecord } from '@toolloop/core';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { play } from '../../fixtures/played-run.js';
import { ask, openShop } from '../../fixtures/shop.module.js';
import { key, shop } from '../sessions/desk.js';

const POLICY: Policy = {
  version: '1',
  allow: ['*'],
  flow: 'off',
  runBudgets: [{ tools: ['probe__read'], calls: 2 }],
};
const KEYS = ['a', 'b', 'c', 'd', 'e'];
const AUDITED = { audit: { key: 'k'.repeat(32) } };
const FIRST_TWO = KEYS.map((_, index) => (index < 2 ? 'succeeded' : 'budget_exceeded'));

function outcomeOf({ status, error }: ToolInvocationRecord): string {
  return error?.code ?? status;
}

describe('a budget of calls that are made at once', () => {
  it.each([
    { with: 'without an audit', options: {} },
    { with: 'with an audit, which is awaited in between', options: AUDITED },
  ])('lets in the first calls of a step, $with', async ({ options }) => {
    const made: string[] = [];
    const model = new ScriptedModel([
      calls(...KEYS.map((name) => call('probe__read', key(name)))),
      text('Done.'),
    ]);
    const loop = await openShop(model, { policy: POLICY, ...options });
    const act = (name: string): number => made.push(name);
    const { result } = await play(loop, ask({ context: { act } }));
    expect(result.toolCalls.map(outcomeOf)).toEqual(FIRST_TWO);
    expect(made).toEqual(['a', 'b']);
  });

  it('lets in the first calls of a session that has no account', async () => {
    const { open, done } = await shop({ policy: POLICY });
    const session = await open();
    const made = await Promise.all(KEYS.map((name) => session.call('probe__read', key(name))));
    expect(made.map(({ record }) => outcomeOf(record))).toEqual(FIRST_TWO);
    expect(done).toHaveLength(2);
  });
});
