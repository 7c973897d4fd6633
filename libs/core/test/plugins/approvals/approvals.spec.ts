import { describe, expect, it } from '@jest/globals';
import { type PendingService, InvalidRequestError } from '@toolloop/core';
import { type ApprovalTerms, DataPolicyEngine } from '@toolloop/core/policy';
import { type ApprovalAmendment, AuditStore, CallJournal, RunLog } from '@toolloop/core/stores';
import { call, calls, collect, eventsOf, text } from '@toolloop/testing';
import { atOnce, HOUR_MS, inAnHour } from '../../fixtures/time.js';
import { alice, asking, read, shop, write } from '../../fixtures/approval.shop.js';
import { resultOf, resultsIn } from '../../fixtures/played-run.js';

const mia = { actor: { id: 'mia', roles: ['manager'] }, tenant: 'acme' };

async function approve(approvals: PendingService, amendment?: ApprovalAmendment): Promise<void> {
  const [request] = await approvals.list(mia);
  await approvals.decide(
    { approvalId: request?.approvalId ?? '', decision: 'approve' },
    mia,
    amendment,
  );
}

describe('a run whose call needs a yes', () => {
  it('ends as waiting, with nothing done and a valid transcript', async () => {
    const { run, done, waiting } = await shop([calls(write('w'))]);
    const { result, events } = await run();
    expect(result).toMatchObject({
      finishReason: 'waiting',
      toolCalls: [{ status: 'waiting', args: { key: 'w' } }],
    });
    expect([result.waitingFor, result.toJSON(), events.at(-1)]).toMatchObject([
      'approval',
      { waitingFor: 'approval' },
      { waitingFor: 'approval' },
    ]);
    expect(result.messages.map(({ role }) => role)).toEqual(['user']);
    expect(done).toEqual([]);
    const [asked] = eventsOf(events, 'approval-request');
    expect(await waiting()).toEqual([asked?.approval.approvalId]);
    expect(asked?.approval).toMatchObject({
      declaredId: 'probe__write',
      args: { key: 'w' },
      mayEdit: false,
    });
  });

  it('continues once it was approved, and the model reads the result', async () => {
    const { run, decide, resume, done, model } = await shop([calls(write('w')), text('Done.')]);
    const { result: first } = await run();
    await decide('approve');
    const result = await resume(first.runId);
    expect(result).toMatchObject({
      runId: first.runId,
      finishReason: 'stop',
      text: 'Done.',
      steps: 2,
    });
    expect(result.waitingFor).toBeUndefined();
    expect(done).toEqual(['w']);
    expect(resultsIn(result.messages)).toEqual(['w done']);
    model.assertComplete();
  });

  it('continues once it was denied, and the model reads why', async () => {
    const { run, decide, resume, done } = await shop([calls(write('w')), text('Well.')]);
    const { result: first } = await run();
    await decide('deny');
    const result = await resume(first.runId);
    expect(done).toEqual([]);
    expect(resultsIn(result.messages)[0]).toContain('I say so.');
    expect(result.toolCalls).toMatchObject([
      { status: 'denied', error: { code: 'approval_denied' } },
    ]);
  });

  it('waits again without a decision', async () => {
    const { run, resume, waiting, done } = await shop([calls(write('w'))]);
    const { result: first } = await run();
    const before = await waiting();
    expect(await resume(first.runId)).toMatchObject({
      finishReason: 'waiting',
      waitingFor: 'approval',
    });
    expect(await waiting()).toEqual(before);
    expect(done).toEqual([]);
  });

  it('reports its open approval again to a later reader', async () => {
    const { run, loop, request } = await shop([calls(write('w'))]);
    const { result: first, events } = await run();
    const later = await collect((await loop.resume(first.runId, request())).events$);
    const [asked, again] = [events, later].map(
      (seen) => eventsOf(seen, 'approval-request')[0]?.approval,
    );
    expect(again).toEqual(asked);
  });

  it('makes no call for an actor without an id, who could not continue the run', async () => {
    const { run, done } = await shop([calls(write('w')), text('Well.')]);
    const { result } = await run({ actor: { name: 'somebody' } });
    expect(result).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'denied', error: { code: 'approval_denied' } }],
    });
    expect(done).toEqual([]);
  });

  it.each([
    [{ approvals: 'hold' }, "Give 'suspend', 'wait' or 'deny'."],
    [{ onToolError: 'rety' }, 'Did you mean "retry"?'],
    [{ onForbidden: true }, "Give 'continue' or 'halt'."],
  ])('is refused with %j, with what to write', async (wrong, remedy) => {
    const { loop, request } = await shop([]);
    expect(() => loop.open(request(wrong as never))).toThrow(remedy);
  });

  it('numbers the events of its parts in one row', async () => {
    const { run, decide, loop, request } = await shop([calls(write('w')), text('Done.')]);
    const { result: first, events } = await run();
    await decide('approve');
    const handle = await loop.resume(first.runId, request());
    const more = await collect(handle.events$);
    expect([...events, ...more].map(({ sequence }) => sequence)).toEqual(
      [...events, ...more].map((_, index) => index + 1),
    );
    expect(eventsOf(more, 'approval-decision')).toMatchObject([
      { decidedBy: 'alice', decision: { decision: 'approve' } },
    ]);
  });

  it('keeps what `state` and the counts of the run hold', async () => {
    const { run, decide, resume } = await shop([
      calls(read('r'), write('w')),
      calls(read('r')),
      text('Done.'),
    ]);
    const { result: first } = await run({ limits: { identicalCalls: 1 } });
    await decide('approve');
    expect(await resume(first.runId, { limits: { identicalCalls: 1 } })).toMatchObject({
      finishReason: 'no_progress',
    });
  });

  it('keeps what the user added meanwhile behind the calls of its step', async () => {
    const { loop, request, decide, resume, done, model } = await shop([
      calls(read('r'), write('w')),
      text('Done.'),
    ]);
    const act = (key: string) => {
      if (key === 'r') handle.addInput('And hurry.');
      done.push(key);
      return key;
    };
    const handle = loop.open(request({ context: { act } }));
    const first = await handle.result;
    expect(first.finishReason).toBe('waiting');
    await decide('approve');
    const result = await resume(first.runId);
    const order = ['user', 'assistant', 'tool', 'tool', 'user'];
    expect(model.requests[1]?.messages.map(({ role }) => role)).toEqual(order);
    expect(result.messages.map(({ role }) => role)).toEqual([...order, 'assistant']);
    expect(result.messages[4]).toMatchObject({ content: 'And hurry.' });
  });

  it('keeps what the user added behind the calls of a step that cannot wait', async () => {
    const { loop, request, module } = await shop([calls(read('r'), write('w'))]);
    module.get(RunLog).add = () => Promise.reject(new Error('down'));
    const handle = loop.open(request({ context: { act: () => handle.addInput('And hurry.') } }));
    const { messages } = await resultOf(handle);
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool', 'user']);
  });

  it('continues its conversation', async () => {
    const { run, decide, resume, request, loop, model } = await shop([
      calls(write('w')),
      text('Done.'),
      text('Again.'),
    ]);
    const { result: first } = await run({ conversationId: 'c1' });
    await decide('approve');
    await resume(first.runId);
    await loop.run(request({ conversationId: 'c1', prompt: 'And now?' }));
    expect(model.requests.at(-1)?.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'user',
    ]);
  });
});

describe('invariant 12: a forged client', () => {
  it('invariant 12: resumes no run of another actor or tenant', async () => {
    const { run, decide, resume, done } = await shop([calls(write('w')), text('Done.')]);
    const { result: first } = await run();
    await decide('approve');
    for (const who of [
      { actor: { id: 'mallory' } },
      { tenant: 'globex' },
      { actor: {} },
      { actor: { id: 'mallory' }, tenant: 'globex' },
    ])
      await expect(resume(first.runId, who)).rejects.toThrow(InvalidRequestError);
    expect(done).toEqual([]);
    expect(await resume(first.runId)).toMatchObject({ finishReason: 'stop' });
  });

  it('invariant 12: resumes a run once, though it asks twice at once', async () => {
    const { run, decide, loop, request, done } = await shop([calls(write('w')), text('Done.')]);
    const { result: first } = await run();
    await decide('approve');
    const both = await Promise.all([
      loop.resume(first.runId, request()),
      loop.resume(first.runId, request()),
    ]);
    const ends = await Promise.allSettled(both.map(({ result }) => result));
    expect(ends.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect(ends.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { name: 'InvalidRequestError', code: 'unknown_run' },
    });
    expect(done).toEqual(['w']);
  });

  it('invariant 12: gets no second call for one approval, in another run or later in this one', async () => {
    const { run, decide, resume, waiting, done } = await shop([
      calls(write('w')),
      calls(write('w')),
    ]);
    const { result: first } = await run();
    await decide('approve');
    expect(await resume(first.runId)).toMatchObject({ finishReason: 'waiting' });
    expect(done).toEqual(['w']);
    expect(await waiting()).toHaveLength(1);
  });

  it('invariant 12: uses no approval again, though the store hands out the run again and forgets what was done', async () => {
    const { run, decide, resume, module, done } = await shop([
      calls(write('w')),
      text('Done.'),
      text('Well.'),
    ]);
    const { result: first } = await run();
    await decide('approve');
    const log: RunLog = module.get(RunLog);
    log.append = () => Promise.resolve(); // its end is lost with its process
    await resume(first.runId);
    const held = await log.find(first.runId);
    expect(held?.lease?.epoch).toBe(2);
    // as if nobody had resumed it
    if (held?.lease) await log.release({ runId: first.runId, ...held.lease });
    const lease = { owner: 'anybody', epoch: 1, expiresAt: new Date().toISOString() };
    module.get(CallJournal).acquire = () => Promise.resolve({ status: 'acquired', lease });
    const again = await resume(first.runId);
    expect(again.toolCalls).toMatchObject([
      { status: 'denied', error: { code: 'approval_denied' } },
    ]);
    expect(done).toEqual(['w']);
  });

  it('invariant 12: makes no call of a yes that has expired since it was given', async () => {
    const { run, decide, resume, done } = await shop(
      [calls(write('w')), text('Well.')],
      asking({ expiresAfterMs: HOUR_MS }),
    );
    const { result: first } = await run();
    await decide('approve');
    const result = await inAnHour(() => resume(first.runId));
    expect(result.toolCalls).toMatchObject([
      { status: 'denied', error: { code: 'approval_denied' } },
    ]);
    expect(done).toEqual([]);
  });

  it.each<[string, Partial<ApprovalTerms>, Partial<ApprovalTerms>]>([
    ['the same people', {}, {}],
    [
      'the same roles, in another order and with another time',
      { roles: ['manager', 'cfo'] },
      { roles: ['cfo', 'manager'], expiresAfterMs: HOUR_MS },
    ],
  ])('invariant 12: uses a yes under another version that asks %s', async (_, before, after) => {
    const { run, decide, resume, module, done, approvals } = await shop(
      [calls(write('w')), text('Done.')],
      asking(before),
    );
    const { result: first } = await run();
    if (before.roles) await approve(approvals);
    else await decide('approve');
    module.get(DataPolicyEngine).replace({ ...asking(after), version: 'v2' });
    expect(await resume(first.runId)).toMatchObject({ finishReason: 'stop' });
    expect(done).toEqual(['w']);
    const entries = await module.get(AuditStore).read('acme', { from: 1, limit: 100 });
    expect(
      entries.flatMap((entry) => (entry.kind === 'decision' ? entry.decision.policyVersion : [])),
    ).toEqual(['v1', 'v2']);
  });

  it('invariant 12: uses the arguments that an approver made of a call, though another version asks no one', async () => {
    const { run, approvals, resume, module, done } = await shop(
      [calls(write('w')), text('Done.')],
      asking({ mayEdit: true, roles: ['manager'] }),
    );
    const { result: first } = await run();
    await approve(approvals, { args: { key: 'less' } });
    module.get(DataPolicyEngine).replace({ version: 'v2', allow: ['*'], flow: 'off' });
    expect(await resume(first.runId)).toMatchObject({ finishReason: 'stop' });
    expect(done).toEqual(['less']);
  });

  it.each<[string, Partial<ApprovalTerms>]>([
    ['people of a role', { roles: ['manager'] }],
    ['anybody but the one who asked', { notRequester: true }],
  ])('invariant 12: needs another yes once another version asks %s', async (_, terms) => {
    const { run, decide, resume, module, approvals, done } = await shop([calls(write('w'))]);
    const { result: first } = await run();
    await decide('approve');
    module.get(DataPolicyEngine).replace({ ...asking(terms), version: 'v2' });
    expect(await resume(first.runId)).toMatchObject({ finishReason: 'waiting' });
    expect(done).toEqual([]);
    expect(await approvals.list(mia)).toHaveLength(1);
  });

  it('invariant 12: is held to the policy of the run, though it resumes without it', async () => {
    const script = [calls(write('a')), calls(write('b'))];
    const { run, decide, resume, done } = await shop(script, {
      version: 'open',
      allow: ['*'],
      flow: 'off',
    });
    const { result: first } = await run({ policy: asking() });
    await decide('approve');
    expect(await resume(first.runId)).toMatchObject({ finishReason: 'waiting' });
    expect(done).toEqual(['a']);
  });

  it('invariant 12: gains nothing by a yes to what is denied by now', async () => {
    const { run, decide, resume, module, done } = await shop([calls(write('w')), text('Well.')]);
    const { result: first } = await run();
    await decide('approve');
    module.get(DataPolicyEngine).replace({ version: 'v3', allow: ['probe__read'] });
    const result = await resume(first.runId);
    expect(result.toolCalls).toMatchObject([
      { status: 'denied', error: { code: 'policy_denied' } },
    ]);
    expect(done).toEqual([]);
  });
});

describe('an approver', () => {
  it('may change the arguments where the policy says so, and they are checked like any', async () => {
    const { run, approvals, resume, done } = await shop(
      [calls(write('w')), text('Done.')],
      asking({ mayEdit: true, roles: ['manager'] }),
    );
    const { result: first } = await run();
    const [request] = await approvals.list(mia);
    await approvals.decide({ approvalId: request?.approvalId ?? '', decision: 'approve' }, mia, {
      args: { key: 'changed' },
    });
    const result = await resume(first.runId);
    expect(done).toEqual(['changed']);
    expect(result.toolCalls).toMatchObject([{ args: { key: 'changed' } }]);
  });

  it('makes no call when the changed arguments do not fit the tool', async () => {
    const { run, approvals, resume, done } = await shop(
      [calls(write('w')), text('Well.')],
      asking({ mayEdit: true, roles: ['manager'] }),
    );
    const { result: first } = await run();
    const [request] = await approvals.list(mia);
    await approvals.decide({ approvalId: request?.approvalId ?? '', decision: 'approve' }, mia, {
      args: { key: 7, tenantId: 'globex' },
    });
    const result = await resume(first.runId);
    expect(result.toolCalls[0]?.error?.code).toBe('tenant_override');
    expect(done).toEqual([]);
  });

  it('gets nothing past a guard by changing the arguments', async () => {
    const { run, approvals, resume, done } = await shop(
      [calls(call('vault__open', { key: 'a' })), text('Well.')],
      asking({ mayEdit: true }),
    );
    const { result: first } = await run();
    const [request] = await approvals.list(alice);
    await approvals.decide({ approvalId: request?.approvalId ?? '', decision: 'approve' }, alice, {
      args: { key: 'forbidden' },
    });
    expect((await resume(first.runId)).toolCalls).toMatchObject([
      { status: 'denied', error: { code: 'forbidden' } },
    ]);
    expect(done).toEqual([]);
  });

  it('prevents a call by denying it after approving the tool for the rest of the run', async () => {
    const { run, approvals, resume, done } = await shop(
      [calls(write('a'), write('b')), text('Done.')],
      asking({ mayRemember: true }),
    );
    const { result: first } = await run();
    const [one, other] = await approvals.list(alice);
    await approvals.decide({ approvalId: one?.approvalId ?? '', decision: 'approve' }, alice, {
      remember: true,
    });
    await approvals.decide({ approvalId: other?.approvalId ?? '', decision: 'deny' }, alice);
    const result = await resume(first.runId);
    expect(result.toolCalls.map(({ status }) => status)).toEqual(['succeeded', 'denied']);
    expect(done).toEqual(['a']);
  });

  it('may say yes for the rest of the run, to this tool and this rule', async () => {
    const script = [calls(write('a')), calls(write('b')), text('Done.')];
    const { run, approvals, resume, done } = await shop(script, asking({ mayRemember: true }));
    const { result: first } = await run();
    const [request] = await approvals.list(alice);
    await approvals.decide({ approvalId: request?.approvalId ?? '', decision: 'approve' }, alice, {
      remember: true,
    });
    expect(await resume(first.runId)).toMatchObject({ finishReason: 'stop' });
    expect(done).toEqual(['a', 'b']);
  });
});

describe('`approvals: wait`', () => {
  it('keeps the run open until a person answers', async () => {
    const { loop, request, decide, waiting, done } = await shop([calls(write('w')), text('Done.')]);
    const handle = loop.open(request({ approvals: 'wait' }));
    const ending = handle.result;
    while ((await waiting()).length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    expect(done).toEqual([]);
    await decide('approve');
    expect(await ending).toMatchObject({ finishReason: 'stop' });
    expect(done).toEqual(['w']);
  });

  it('refuses the call once the approval has expired', async () => {
    const { run, done } = await shop(
      [calls(write('w')), text('Well.')],
      asking({ expiresAfterMs: 20 }),
    );
    const { result } = await run({ approvals: 'wait' });
    expect(result).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ error: { code: 'approval_denied' } }],
    });
    expect(done).toEqual([]);
  });

  it('invariant 11: ends at once when the run is aborted', async () => {
    const { loop, request, waiting, done } = await shop([calls(write('w'))]);
    const handle = loop.open(request({ approvals: 'wait' }));
    const ending = handle.result.catch((error: unknown) => error);
    while ((await waiting()).length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    handle.cancel();
    expect(await atOnce(ending)).toMatchObject({
      result: { finishReason: 'aborted', toolCalls: [{ error: { code: 'aborted' } }] },
    });
    expect(done).toEqual([]);
  });
});

describe('invariant 14: the audit', () => {
  it('invariant 14: holds every decision, approval and outcome of a run', async () => {
    const { run, decide, resume, module } = await shop([
      calls(read('r'), write('w')),
      text('Done.'),
    ]);
    const { result: first } = await run();
    await decide('approve');
    await resume(first.runId);
    const entries = await module.get(AuditStore).read('acme', { from: 1, limit: 100 });
    expect(entries.map(({ kind }) => kind)).toEqual([
      'decision',
      'outcome',
      'decision',
      'approval-request',
      'approval-decision',
      'outcome',
    ]);
    expect(
      entries.every(({ runId, actorId }) => runId === first.runId && actorId === 'alice'),
    ).toBe(true);
  });

  it('invariant 14: holds the decision on a held call once, however often the run is resumed before a person answers', async () => {
    const { run, decide, resume, module } = await shop([
      calls(write('w'), write('x'), read('r')),
      text('Done.'),
    ]);
    const kindsOf = async (id: string) => {
      const entries = await module.get(AuditStore).read('acme', { from: 1, limit: 100 });
      return entries.filter(({ toolCallId }) => toolCallId === id).map(({ kind }) => kind);
    };
    const { result: first } = await run();
    for (let time = 1; time <= 3; time += 1) await resume(first.runId);
    expect(await kindsOf('call_1')).toEqual(['decision', 'approval-request']);
    expect(await kindsOf('call_3')).toEqual([]);
    await decide('approve');
    await resume(first.runId);
    await resume(first.runId);
    expect(await kindsOf('call_1')).toEqual([
      'decision',
      'approval-request',
      'approval-decision',
      'outcome',
    ]);
    await decide('deny');
    await resume(first.runId);
    expect(await kindsOf('call_2')).toEqual([
      'decision',
      'approval-request',
      'approval-decision',
      'denied',
    ]);
    expect(await kindsOf('call_3')).toEqual(['decision', 'outcome']);
  });

  it('invariant 14: holds the decision of a policy that has changed since as well', async () => {
    const { run, decide, resume, module, done } = await shop([calls(write('w')), text('Done.')]);
    const { result: first } = await run();
    module.get(DataPolicyEngine).replace({ ...asking({ notRequester: true }), version: 'v2' });
    await resume(first.runId);
    await resume(first.runId);
    module.get(DataPolicyEngine).replace({ version: 'v3', allow: ['*'], flow: 'off' });
    await decide('approve', mia); // the newer of the two questions
    await resume(first.runId);
    const entries = await module.get(AuditStore).read('acme', { from: 1, limit: 100 });
    expect(
      entries.flatMap((entry) => (entry.kind === 'decision' ? entry.decision.policyVersion : [])),
    ).toEqual(['v1', 'v2', 'v3']);
    expect(done).toEqual(['w']);
  });

  it('invariant 14: holds what was denied, by which rule', async () => {
    const { run, module } = await shop([calls(write('w')), text('Well.')], {
      version: 'v9',
      allow: ['probe__read'],
    });
    await run();
    const entries = await module.get(AuditStore).read('acme', { from: 1, limit: 100 });
    expect(entries).toMatchObject([
      { kind: 'decision', decision: { kind: 'deny', rule: 'default', policyVersion: 'v9' } },
      { kind: 'denied', code: 'policy_denied' },
    ]);
  });

  it('invariant 14: prevents a call when it cannot record its decision', async () => {
    const { run, module, done } = await shop([calls(read('r')), text('Well.')]);
    const store = module.get(AuditStore);
    store.append = () => Promise.reject(new Error('disk full'));
    const error = { code: 'storage_unavailable' };
    await expect(run()).rejects.toMatchObject({
      result: { error, toolCalls: [{ error: { code: 'aborted' } }] },
    });
    expect(done).toEqual([]);
  });
});
