import { describe, expect, it } from '@jest/globals';
import { clientTool, type LoopRequest, PendingService, type Policy, subRunTool, ToolLoopService } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import { call, calls, ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import { ask, openModule } from '../fixtures/shop.module.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const policy: Policy = { version: 'v1', allow: ['*'], flow: 'off', requireApproval: [{ tools: ['probe__write'] }] };
const write = call('probe__write', { key: 'a' });
const conversationId = 'c1';

async function desk(script: readonly ScriptedTurn[], rules = policy) {
  const model = new ScriptedModel(script);
  const paint = clientTool({ id: 'paint', description: 'Paints.', effect: 'state_change', input: { type: 'object', properties: {} } });
  const inquire = subRunTool({ id: 'inquire', description: 'Finds out.', tools: ['probe__*'] });
  const module = await openModule(model, { policy: rules, tools: [paint, inquire] });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const runs: RunService = module.get(RunService);
  const inbox: PendingService = module.get(PendingService);
  const waiting = async (who = alice) => (await inbox.inbox(who)).map(({ id }) => id);
  const say = (more: Partial<LoopRequest> = {}) => loop.run(ask({ conversationId, ...more }));
  const decide = (approvalId: string, decision: 'approve' | 'deny' | 'withdraw') => inbox.decide({ approvalId, decision }, alice);
  const told = () => (model.requests.at(-1)?.messages ?? []).findLast(({ role }) => role === 'tool')?.content;
  return { loop, runs, waiting, say, decide, told };
}

const WAITS = { status: 'waiting', id: expect.any(String), expiresAt: expect.any(String) };

describe('a conversation that continues while a call waits', () => {
  it.each([
    ['an approval', write],
    ['its client', call('paint')],
  ])('tells the model of an equal call that waits for %s, and asks no one again', async (_, wanted) => {
    const { say, waiting, told } = await desk([calls(wanted), calls(wanted), text('It waits.')]);
    const first = await say();
    const second = await say();
    const [id, ...more] = await waiting();
    expect([first.finishReason, second.finishReason, more]).toEqual(['waiting', 'stop', []]);
    expect(told()).toMatch(`{"status":"waiting","id":"${id ?? ''}","expiresAt":`);
    expect(second.toolCalls).toEqual([expect.objectContaining({ status: 'succeeded', pendingId: id, result: { ...WAITS, id } })]);
  });

  it('is told so in a sub-run as well', async () => {
    const inquiry = calls(call('inquire', { prompt: 'Do it.' }));
    const { say, waiting } = await desk([calls(write), inquiry, calls(write), text('It waits.'), text('Later.')]);
    await say();
    expect(await say()).toMatchObject({ finishReason: 'stop', text: 'Later.' });
    expect(await waiting()).toHaveLength(1);
  });

  it.each<[string, Partial<LoopRequest>, object]>([
    ['with other arguments', {}, { key: 'b' }],
    ['in another conversation', { conversationId: 'c2' }, { key: 'a' }],
    ['outside of any conversation', { conversationId: undefined }, { key: 'a' }],
    ['of another tenant', { tenant: 'globex' }, { key: 'a' }],
    ['of another actor', { actor: { id: 'bob' } }, { key: 'a' }],
  ])('asks for a call %s', async (_, more, args) => {
    const { say } = await desk([calls(write), calls(call('probe__write', args as never))]);
    await say();
    expect(await say(more)).toMatchObject({ finishReason: 'waiting', waitingFor: 'approval' });
  });

  it('knows of a call that is approved and not made yet, and asks again once it was made', async () => {
    const { say, waiting, decide, loop } = await desk([calls(write), calls(write), text('It waits.'), text('Done.'), calls(write)]);
    const first = await say();
    const [id = ''] = await waiting();
    await decide(id, 'approve');
    expect(await say()).toMatchObject({ finishReason: 'stop', text: 'It waits.' });
    expect(await (await loop.resume(first.runId, alice)).result).toMatchObject({ finishReason: 'stop', text: 'Done.' });
    expect(await say()).toMatchObject({ finishReason: 'waiting' });
  });

  it.each(['deny', 'withdraw'] as const)('asks again after the answer %s', async (decision) => {
    const { say, waiting, decide } = await desk([calls(write), calls(write)]);
    await say();
    const [id = ''] = await waiting();
    await decide(id, decision);
    expect(await say()).toMatchObject({ finishReason: 'waiting' });
  });

  it('asks again where the run that had asked was cancelled, answered or not', async () => {
    const { say, waiting, decide, runs } = await desk([calls(write), calls(write), calls(write)]);
    const first = await say();
    await decide((await waiting())[0] ?? '', 'approve');
    await runs.cancel(first.runId, alice);
    const second = await say();
    expect(second).toMatchObject({ finishReason: 'waiting' });
    await runs.cancel(second.runId, alice);
    expect(await say()).toMatchObject({ finishReason: 'waiting' });
  });

  it('does not count a call of a client that is not made to its budget', async () => {
    const rules: Policy = { ...policy, runBudgets: [{ tools: ['paint'], calls: 1 }] };
    const { say } = await desk([calls(call('paint')), calls(call('paint')), calls(call('paint')), text('It waits.')], rules);
    await say();
    const { toolCalls } = await say();
    expect(toolCalls.map(({ error }) => error)).toEqual([undefined, undefined]);
  });
});
