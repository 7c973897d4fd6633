import { describe, expect, it, jest } from '@jest/globals';
import type { Provider } from '@nestjs/common';
import {
  type ApprovalDecision,
  PendingService,
  type Policy,
  subRunTool,
  ToolLoopService,
} from '@toolloop/core';
import { PendingStore, MemoryPendingStore } from '@toolloop/core/stores';
import { ScriptedModel, call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import { ask, openModule } from '../../fixtures/shop.module.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const policy: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ effects: ['state_change'] }],
};
const write = (key: string) => call('probe__write', { key });

async function shop(script: readonly ScriptedTurn[], providers: readonly Provider[] = []) {
  const inquire = subRunTool({ id: 'inquire', description: 'Finds out.', tools: ['probe__*'] });
  const module = await openModule(new ScriptedModel(script), {
    policy,
    tools: [inquire],
    providers,
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const approvals: PendingService = module.get(PendingService);
  return {
    loop,
    approvals,
    waiting: async () => (await approvals.list(alice)).map(({ approvalId }) => approvalId),
    decide: (approvalId = '', decision: ApprovalDecision['decision'] = 'approve') =>
      approvals.decide({ approvalId, decision }, alice),
  };
}

describe('what a run asked a person for', () => {
  it.each<[string, ScriptedTurn[]]>([
    ['by itself', [calls(write('a'), write('b'))]],
    ['in a sub-run', [calls(call('inquire', { prompt: 'Look.' })), calls(write('a'), write('b'))]],
  ])('%s is asked no more once it has ended', async (_, script) => {
    const { loop, approvals, waiting, decide } = await shop(script);
    const { runId } = await loop.run(ask());
    const [first, second = ''] = await waiting();
    await decide(first);
    const act = (): Promise<never> => {
      resumed.cancel();
      return new Promise(() => undefined);
    };
    const resumed = await loop.resume(runId, { ...alice, context: { act } });
    await expect(resumed.result).rejects.toMatchObject({ result: { finishReason: 'aborted' } });
    expect(await waiting()).toEqual([]);
    const message = expect.stringContaining('The run that asked for it has ended');
    await expect(decide(second)).rejects.toMatchObject({ code: 'withdrawn', message });
    expect(await approvals.get(second, alice)).toMatchObject({
      answer: { isWithdrawn: true, decidedBy: 'the run' },
    });
  });

  it('is asked no more where the run was cancelled before it waited', async () => {
    const { loop, approvals, waiting } = await shop([calls(write('a'))]);
    const handle = loop.open(ask());
    for await (const { type } of handle) if (type === 'approval-request') handle.cancel();
    await expect(handle.result).rejects.toMatchObject({ result: { finishReason: 'aborted' } });
    expect(await waiting()).toEqual([]);
    expect(await approvals.list(alice)).toEqual([]);
  });

  it('is looked for only by a run that may have asked', async () => {
    const store = new MemoryPendingStore();
    const lookedFor = jest.spyOn(store, 'list');
    const { loop } = await shop([text('Done.')], [{ provide: PendingStore, useValue: store }]);
    await loop.run(ask());
    expect(lookedFor).not.toHaveBeenCalled();
  });

  it('is asked on while its run waits, whatever ends beside it', async () => {
    const { loop, waiting, decide } = await shop([
      calls(write('a'), write('b')),
      calls(write('c')),
      text('Well.'),
    ]);
    const first = await loop.run(ask());
    const other = await loop.run(ask());
    const [a, b, c] = await waiting();
    await decide(a);
    expect(await (await loop.resume(first.runId, alice)).result).toMatchObject({
      finishReason: 'waiting',
    });
    expect(await waiting()).toEqual([b, c]);
    await decide(c, 'deny');
    expect(await (await loop.resume(other.runId, alice)).result).toMatchObject({
      finishReason: 'stop',
    });
    expect(await waiting()).toEqual([b]);
  });

  it('is asked no more where the run waited for the answer, and says so', async () => {
    const { loop, waiting, decide } = await shop([calls(write('a'))]);
    const handle = loop.open({ ...ask(), approvals: 'wait' });
    const ending = handle.result.catch(() => undefined);
    while ((await waiting()).length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    const [id] = await waiting();
    handle.cancel();
    await ending;
    await expect(decide(id)).rejects.toMatchObject({ code: 'withdrawn' });
  });
});
