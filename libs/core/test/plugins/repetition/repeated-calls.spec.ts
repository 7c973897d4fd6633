import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  type ApprovalRule,
  PendingService,
  type LoopRequest,
  type LoopResult,
  type Policy,
  subRunTool,
  ToolLoopService,
} from '@toolloop/core';
import { AuditStore, CallJournal } from '@toolloop/core/stores';
import {
  ScriptedModel,
  call,
  calls,
  collect,
  eventsOf,
  expectRunEndsOnce,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { resultsIn, type PlayedRun } from '../../fixtures/played-run.js';
import { ask, openModule } from '../../fixtures/shop.module.js';
import { HOUR_MS } from '../../fixtures/time.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const mia = { actor: { id: 'mia', roles: ['manager'] }, tenant: 'acme' };
const write = (key = 'w') => call('probe__write', { key });
const open: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
const asking = (rule: ApprovalRule = {}): Policy => ({
  ...open,
  requireApproval: [{ tools: ['probe__write'], ...rule }],
});
/** Of the first call of a request, and of the first call of a sub-run that is that one. */
const FIRST = [1, 0];
const WITHIN = [1, 0, 1, 0];

/** A shop whose journal has a call of the request `order 7` that somebody began who is gone. */
async function shop(script: readonly ScriptedTurn[], policy = open, place = FIRST) {
  const model = new ScriptedModel(script);
  const inquire = subRunTool({ id: 'inquire', description: 'Finds out.', tools: ['probe__*'] });
  const module = await openModule(model, {
    policy,
    audit: { key: 'k'.repeat(32) },
    tools: [inquire],
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const approvals: PendingService = module.get(PendingService);
  const idempotencyKey = JSON.stringify(['alice', 'order 7', ...place]);
  const begun = {
    tenant: 'acme',
    idempotencyKey,
    owner: 'gone',
    runId: 'r0',
    declaredId: 'probe__write',
    args: '{"key":"w"}',
    forMs: 1,
  };
  await module.get(CallJournal).acquire(begun);
  await new Promise((resolve) => setTimeout(resolve, 3));
  const done: string[] = [];
  const act = (key: string) => `${key} done ${done.push(key)}`;
  const request = (more: Partial<LoopRequest> = {}): LoopRequest =>
    ask({ context: { act }, requestId: 'order 7', ...more });
  const run = async (more: Partial<LoopRequest> = {}): Promise<PlayedRun> => {
    const handle = loop.open(request(more));
    const events = await collect(handle.events$);
    expectRunEndsOnce(events);
    return { events, result: await handle.result };
  };
  return {
    module,
    loop,
    approvals,
    done,
    run,
    waiting: (who = alice) => approvals.list(who),
    asked: async (who = alice) => {
      while ((await approvals.list(who)).length === 0)
        await new Promise((resolve) => setTimeout(resolve, 2));
    },
    decide: async (decision: 'approve' | 'deny', who = alice, args?: { key: string }) => {
      const [waits] = await approvals.list(who);
      return approvals.decide(
        { approvalId: waits?.approvalId ?? '', decision, reason: 'I looked.' },
        who,
        { ...(args && { args }) },
      );
    },
    resume: async ({ runId }: LoopResult): Promise<LoopResult> =>
      (await loop.resume(runId, { ...request(), prompt: undefined, requestId: undefined } as never))
        .result,
  };
}

afterEach(() => {
  jest.useRealTimers();
});

describe('a call of unknown outcome', () => {
  it('asks the one for whom the run acts, and is not made meanwhile', async () => {
    const { run, waiting, done } = await shop([calls(write())]);
    const { result, events } = await run();
    expect(result).toMatchObject({ finishReason: 'waiting', toolCalls: [{ status: 'waiting' }] });
    expect(await waiting()).toEqual(
      eventsOf(events, 'approval-request').map(({ approval }) => approval),
    );
    expect(await waiting()).toMatchObject([
      {
        declaredId: 'probe__write',
        args: { key: 'w' },
        reason: expect.stringContaining('It is unknown whether this call took place'),
        mayEdit: false,
      },
    ]);
    expect(done).toEqual([]);
  });

  it('is made once with an approval, and its key answers with its outcome', async () => {
    const { run, decide, resume, done } = await shop([
      calls(write()),
      text('Done.'),
      calls(write()),
      text('Done.'),
    ]);
    const { result: first } = await run();
    await decide('approve');
    await expect(decide('approve')).rejects.toMatchObject({ code: 'not_found' });
    const result = await resume(first);
    expect(result).toMatchObject({ finishReason: 'stop', toolCalls: [{ status: 'succeeded' }] });
    const { result: again } = await run();
    expect([resultsIn(result.messages), resultsIn(again.messages)]).toEqual([
      ['w done 1'],
      ['w done 1'],
    ]);
    expect(done).toEqual(['w']);
  });

  it('is left where they say no, and the model reads why', async () => {
    const { run, decide, resume, done } = await shop([calls(write()), text('Well.')]);
    const { result: first } = await run();
    await decide('deny');
    const result = await resume(first);
    expect(result.toolCalls).toMatchObject([
      { status: 'failed', error: { code: 'unknown_outcome' } },
    ]);
    expect(resultsIn(result.messages)[0]).toMatch(
      /it is unknown whether its effect took place.*A person decided not to make it again\. They said: I looked\./,
    );
    expect(done).toEqual([]);
  });

  it('is not made without a decision in time, or when the decision comes too late', async () => {
    for (const decides of [false, true]) {
      const { run, decide, resume, done } = await shop([calls(write()), text('Well.')]);
      const { result: first } = await run();
      if (decides) await decide('approve');
      jest.useFakeTimers({
        now: Date.now() + 90_000_000,
        doNotFake: ['setTimeout', 'setImmediate', 'nextTick', 'queueMicrotask'],
      });
      const result = await resume(first);
      jest.useRealTimers();
      expect(resultsIn(result.messages)[0]).toContain(
        decides
          ? 'The approval had expired, so it was not made again.'
          : 'No decision was made in time',
      );
      expect([result.toolCalls[0]?.error?.code, done]).toEqual(['unknown_outcome', []]);
    }
  });

  it('waits again without a decision', async () => {
    const { run, resume, waiting } = await shop([calls(write())]);
    const { result: first } = await run();
    const before = await waiting();
    expect(await resume(first)).toMatchObject({ finishReason: 'waiting' });
    expect(await waiting()).toEqual(before);
  });

  it.each<[string, Partial<LoopRequest>]>([
    ['that asks no one', { approvals: 'deny' }],
    ['of no one', { actor: { name: 'somebody' } }],
  ])('is told to the model alone in a run %s', async (_, more) => {
    const { run, module, done } = await shop([calls(write()), text('Well.')]);
    const begun = {
      tenant: 'acme',
      idempotencyKey: JSON.stringify([null, 'order 7', 1, 0]),
      owner: 'gone',
      runId: 'r0',
      forMs: 1,
    };
    await module
      .get(CallJournal)
      .acquire({ ...begun, declaredId: 'probe__write', args: '{"key":"w"}' });
    const { result } = await run(more);
    expect(result).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ error: { code: 'unknown_outcome' } }],
    });
    expect(done).toEqual([]);
  });

  it('is answered with its outcome when another process made it again first, whatever the decision says', async () => {
    const { run, waiting, approvals, resume, done } = await shop([
      calls(write()),
      calls(write()),
      text('Done.'),
      text('Done.'),
    ]);
    const { result: one } = await run();
    const { result: other } = await run();
    for (const { approvalId } of await waiting())
      await approvals.decide({ approvalId, decision: 'approve' }, alice);
    expect(resultsIn((await resume(one)).messages)).toEqual(['w done 1']);
    expect(resultsIn((await resume(other)).messages)).toEqual(['w done 1']);
    expect(done).toEqual(['w']);
  });

  it('counts once in the budgets of policy', async () => {
    const budget: Policy = { ...open, runBudgets: [{ tools: ['probe__write'], calls: 1 }] };
    const { run, decide, resume, done } = await shop(
      [calls(write()), calls(write('v')), text('Done.')],
      budget,
    );
    const { result: first } = await run();
    await decide('approve');
    const result = await resume(first);
    expect(result.toolCalls.map(({ status, error }) => error?.code ?? status)).toEqual([
      'succeeded',
      'budget_exceeded',
    ]);
    expect(done).toEqual(['w']);
  });

  it('holds back every call behind it', async () => {
    const { run, decide, resume, done } = await shop([
      calls(write(), write('v'), call('probe__read', { key: 'r' })),
      text('Done.'),
    ]);
    const { result: first } = await run();
    expect(done).toEqual([]);
    await decide('approve');
    await resume(first);
    expect(done).toEqual(['w', 'v', 'r']);
  });

  it('asks by the root run when it is in a sub-run', async () => {
    const script = [
      calls(call('inquire', { prompt: 'Look.' })),
      calls(write()),
      text('Written.'),
      text('Told.'),
    ];
    const { run, decide, resume, waiting, done } = await shop(script, open, WITHIN);
    const { result: first } = await run();
    expect(await waiting()).toMatchObject([{ runId: first.runId, declaredId: 'probe__write' }]);
    await decide('approve');
    expect(await resume(first)).toMatchObject({ finishReason: 'stop', text: 'Told.' });
    expect(done).toEqual(['w']);
  });
});

describe('a call of unknown outcome that also needs an approval', () => {
  it('asks whom policy wants asked, for another yes than that to the call; nothing of it can be changed or remembered', async () => {
    const rule = { roles: ['manager'], mayEdit: true, mayRemember: true };
    const { run, decide, resume, waiting, approvals, done } = await shop(
      [calls(write()), text('Done.')],
      asking(rule),
    );
    const { result: first } = await run();
    await decide('approve', mia);
    expect(await resume(first)).toMatchObject({ finishReason: 'waiting' });
    const [waits] = await waiting(mia);
    expect(waits).toMatchObject({
      reason: expect.stringContaining('It is unknown'),
      mayEdit: false,
      mayRemember: false,
    });
    await expect(decide('approve', alice)).rejects.toMatchObject({ code: 'not_permitted' });
    await expect(decide('approve', mia, { key: 'x' })).rejects.toMatchObject({
      code: 'invalid_answer',
    });
    await approvals.decide({ approvalId: waits?.approvalId ?? '', decision: 'approve' }, mia);
    await expect(
      approvals.decide({ approvalId: waits?.approvalId ?? '', decision: 'deny' }, mia),
    ).rejects.toMatchObject({
      code: 'already_answered',
    });
    expect(await resume(first)).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded' }],
    });
    expect(done).toEqual(['w']);
  });

  it('asks for the arguments as the approver changed them', async () => {
    const { run, decide, resume, waiting, done } = await shop(
      [calls(write('x')), text('Done.')],
      asking({ mayEdit: true }),
    );
    const { result: first } = await run();
    await decide('approve', alice, { key: 'w' });
    expect(await resume(first)).toMatchObject({ finishReason: 'waiting' });
    expect(await waiting()).toMatchObject([{ args: { key: 'w' } }]);
    await decide('approve');
    expect(await resume(first)).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded', args: { key: 'w' } }],
    });
    expect(done).toEqual(['w']);
  });
});

describe('`approvals: wait`, and a call of unknown outcome', () => {
  it.each([open, asking()])(
    'makes it once a person has said yes, and shows it once (%#)',
    async (policy) => {
      const { run, asked, decide, waiting, done } = await shop(
        [calls(write()), text('Done.')],
        policy,
      );
      const running = run({ approvals: 'wait' });
      for (let left = policy === open ? 1 : 2; left > 0; left -= 1) {
        await asked();
        await decide('approve');
      }
      const { events, result } = await running;
      expect(result).toMatchObject({ finishReason: 'stop', toolCalls: [{ status: 'succeeded' }] });
      expect([
        eventsOf(events, 'tool-call').length,
        eventsOf(events, 'tool-start').length,
        await waiting(),
        done,
      ]).toEqual([1, 1, [], ['w']]);
      expect(eventsOf(events, 'approval-decision').at(-1)).toMatchObject({ decidedBy: 'alice' });
    },
  );

  it('makes it as the approver of the call had changed it, who is asked about that once', async () => {
    const { run, asked, decide, done } = await shop(
      [calls(write('x')), text('Done.')],
      asking({ mayEdit: true }),
    );
    const running = run({ approvals: 'wait' });
    await asked();
    await decide('approve', alice, { key: 'w' });
    await asked();
    await decide('approve');
    const { events, result } = await running;
    expect(result).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded', args: { key: 'w' } }],
    });
    expect([eventsOf(events, 'approval-request').length, done]).toEqual([2, ['w']]);
  });

  it('leaves it once the time to say so is over', async () => {
    const { run, waiting, decide, done } = await shop(
      [calls(write()), text('Well.')],
      asking({ expiresAfterMs: HOUR_MS }),
    );
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
    const running = run({
      approvals: 'wait',
      limits: { runMs: 3 * HOUR_MS, toolCallMs: 3 * HOUR_MS },
    });
    while ((await waiting()).length === 0) await jest.advanceTimersByTimeAsync(1);
    await decide('approve');
    while ((await waiting()).length === 0) await jest.advanceTimersByTimeAsync(1);
    await jest.advanceTimersByTimeAsync(HOUR_MS + 1);
    const { result } = await running;
    expect(resultsIn(result.messages)[0]).toContain(
      'No decision was made in time whether to make it again.',
    );
    expect([result.toolCalls[0]?.error?.code, done]).toEqual(['unknown_outcome', []]);
  });
});

describe('invariant 14: the audit of a call of unknown outcome', () => {
  it('invariant 14: holds who was asked, what they said, and what followed', async () => {
    const { run, decide, resume, module } = await shop([calls(write()), text('Well.')]);
    const { result: first } = await run();
    await decide('deny');
    await resume(first);
    const entries = await module.get(AuditStore).read('acme', { from: 1, limit: 100 });
    expect(entries.map(({ kind }) => kind)).toEqual([
      'decision',
      'approval-request',
      'approval-decision',
      'decision',
      'outcome',
    ]);
    expect(entries.at(-1)).toMatchObject({ status: 'unknown', code: 'unknown_outcome' });
  });
});
