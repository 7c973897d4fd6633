import { describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { clientTool, tool, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { ScriptedModel } from '@toolloop/testing';
import { setTimeout as wait } from 'node:timers/promises';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const pay = tool({
  id: 'bank__pay',
  description: 'Pays.',
  effect: 'state_change',
  reveal: 'all',
  execute: () => 'paid',
});
const print = clientTool({
  id: 'screen__print',
  description: 'Prints.',
  effect: 'external_side_effect',
  input: { type: 'object' },
});
const find = tool({
  id: 'bank__find',
  description: 'Finds.',
  effect: 'read_only',
  reveal: 'all',
  execute: () => 'found',
});

async function desk() {
  const policy = {
    version: 'v1',
    allow: ['*'],
    flow: 'off',
    requireApproval: [{ tools: ['bank__pay'] }],
  } as const;
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy, tools: [pay, print, find] }),
    ],
  }).compile();
  module.useLogger(false);
  await module.init();
  return { module, loop: module.get<ToolLoopService>(ToolLoopService) };
}

const timers = (): number =>
  process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;

/**
 * The timers once there are no more than that: one of a moment is gone soon, and one that was left
 * stays.
 */
async function timersDownTo(most: number): Promise<number> {
  for (let round = 0; round < 50 && timers() > most; round += 1) await wait(100);
  return timers();
}

describe('a call of a session', () => {
  it.each([
    ['waits for an approver', 'bank__pay', 'waiting'],
    ['waits for its client', 'screen__print', 'waiting'],
    ['is answered', 'bank__find', 'succeeded'],
    ['names no tool', 'bank__fnd', 'failed'],
  ])('leaves no timer once it %s', async (_, id, status) => {
    const { module, loop } = await desk();
    const before = timers();
    const session = await loop.session({ ...alice, limits: { runMs: 300_000 } });
    const { record } = await session.call(id, {}, { signal: new AbortController().signal });
    expect(record.status).toBe(status);
    await session.close();
    expect(await timersDownTo(before)).toBeLessThanOrEqual(before);
    await module.close();
  });

  it('leaves no timer if it is aborted while it is made', async () => {
    const { module, loop } = await desk();
    const before = timers();
    const session = await loop.session(alice);
    await expect(session.call('bank__pay', {}, { signal: AbortSignal.abort() })).rejects.toThrow(
      'abort',
    );
    await session.close();
    expect(await timersDownTo(before)).toBeLessThanOrEqual(before);
    await module.close();
  });
});
