import { describe, expect, it } from '@jest/globals';
import { type JsonObject, type Policy, ToolInterceptor } from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import {
  PendingStore,
  AuditStore,
  CallJournal,
  MemoryPendingStore,
  MemoryCallJournal,
  MemoryRunLog,
  RunLog,
} from '@toolloop/core/stores';
import { call, calls, eventsOf, text } from '@toolloop/testing';
import { callIdsIn } from '../../fixtures/played-run.js';
import { alice, innerEvents, read, research, send, stage, toldOf, write } from './stage.js';

const asking: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ tools: ['probe__write'] }],
};
const options = { policy: asking, audit: { key: 'k'.repeat(32) } };
const waits = { inner: [calls(read('r'), write('w')), text('Written.')], options };

describe('a call of a sub-run that needs a yes', () => {
  it('is asked about by the root run, which waits', async () => {
    const { play, approvals, done } = await stage(waits);
    const { events, result } = await play();
    expect(result.waitingFor).toBe('approval');
    expect(result).toMatchObject({
      finishReason: 'waiting',
      toolCalls: [{ status: 'waiting', subRun: { finishReason: 'waiting' } }],
    });
    const [asked] = eventsOf(events, 'approval-request');
    const { runId } = result.toolCalls[0]?.subRun ?? {};
    expect(asked).toMatchObject({
      step: 1,
      approval: { runId: result.runId, path: [result.runId, runId], declaredId: 'probe__write' },
    });
    expect(innerEvents(events).filter(({ type }) => type === 'approval-request')).toEqual([]);
    expect(innerEvents(events).map(({ sequence }) => sequence)).toEqual(
      innerEvents(events).map((_, index) => index + 1),
    );
    expect(await approvals.list(alice, { runId: result.runId })).toHaveLength(1);
    expect(done).toEqual(['r']);
  });

  it('continues inside the sub-run once it is approved, with nothing done twice', async () => {
    const { play, decide, resume, done, inner, outer } = await stage(waits);
    const { result: first, events } = await play();
    await decide('approve');
    const { result, events: more } = await resume(first.runId);
    expect(done).toEqual(['r', 'w']);
    expect(toldOf(result)).toMatchObject({ summary: 'Written.', steps: 2, toolCalls: 2 });
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Told.' });
    expect(result.toolCalls[0]?.subRun?.runId).toBe(first.toolCalls[0]?.subRun?.runId);
    expect(innerEvents([...events, ...more]).map(({ sequence }) => sequence)).toEqual(
      innerEvents([...events, ...more]).map((_, index) => index + 1),
    );
    expect([...events, ...more].map(({ sequence }) => sequence)).toEqual(
      [...events, ...more].map((_, index) => index + 1),
    );
    expect(callIdsIn(result.messages)).toHaveLength(1);
    inner.assertComplete();
    outer.assertComplete();
  });

  it('keeps the run around it in its store where what was stored of the sub-run is not what it must be', async () => {
    const store = new MemoryRunLog();
    const approvals = { provide: PendingStore, useValue: new MemoryPendingStore() };
    const providers = [approvals, { provide: RunLog, useValue: store }];
    const { play, decide } = await stage({ ...waits, options: { ...options, providers } });
    const { result: first } = await play();
    await decide('approve');
    const held = await store.acquire(first.runId, { owner: 'spec', forMs: 60_000 });
    const [entry] = await store.read(first.runId);
    if (!held || entry?.type !== 'wait') throw new Error('The run does not wait.');
    const { approvals: asked = null } = entry.value;
    const value = {
      ...(JSON.parse(
        JSON.stringify(entry.value).replaceAll('"repeated":[]', '"repeated":5'),
      ) as JsonObject),
      approvals: asked,
    };
    const ending = { status: 'waiting', finishReason: 'waiting' } as const;
    await store.append(
      { runId: first.runId, ...held.lease },
      { entries: [{ ...entry, value }], events: [], ending },
    );
    const where = 'pending.outcomes[0].checkpoint.saved.saved.approvals.repeated is not';
    const other = await stage({
      inner: [text('Written.')],
      outer: [text('Told.')],
      options: { ...options, providers },
    });
    await expect(other.resume(first.runId)).rejects.toMatchObject({
      code: 'unreadable_run',
      message: expect.stringContaining(where),
    });
    expect(await store.find(first.runId)).toBeDefined();
  });

  it('continues in another process, where only JSON is left of it', async () => {
    const shared = [PendingStore, RunLog, CallJournal].map((provide, index) => ({
      provide,
      useValue: [new MemoryPendingStore(), new MemoryRunLog(), new MemoryCallJournal()][index],
    }));
    const { play, decide, done } = await stage({
      ...waits,
      options: { ...options, providers: shared },
    });
    const { result: first } = await play();
    await decide('approve');
    const other = await stage({
      inner: [text('Written.')],
      outer: [text('Told.')],
      options: { ...options, providers: shared },
    });
    const { result } = await other.resume(first.runId);
    expect([done, other.done]).toEqual([['r'], ['w']]);
    expect(toldOf(result)).toMatchObject({ summary: 'Written.', toolCalls: 2 });
    const [early, late] = result.toolCalls[0]?.subRun?.toolCalls ?? [];
    expect([early?.startedAt, late?.startedAt].every((date) => date instanceof Date)).toBe(true);
    expect(result.usage).toMatchObject({ inputTokens: 40, outputTokens: 20 });
  });

  it('has the tools that it found before it waited', async () => {
    const found = calls(call('crm__searchCustomers', { name: 'Ann' }));
    const spend = calls(call('customer_c-1_getAverageSpend'));
    const tools = ['probe__*', 'crm__searchCustomers', 'customer_*_getAverageSpend'];
    const { play, decide, resume, inner } = await stage({
      ...waits,
      inner: [found, calls(write('w')), spend, text('So.')],
      subRun: { tools },
    });
    const { result: first } = await play();
    await decide('approve');
    const { result } = await resume(first.runId);
    expect(result.toolCalls[0]?.subRun?.toolCalls?.map(({ status }) => status)).toEqual([
      'succeeded',
      'succeeded',
      'succeeded',
    ]);
    expect(
      inner.requests
        .slice(1)
        .every(({ toolIds }) => toolIds.at(-1) === 'customer_c-1_getAverageSpend'),
    ).toBe(true);
  });

  it('is told to its model where it is denied', async () => {
    const { play, decide, resume, done, inner } = await stage(waits);
    const { result: first } = await play();
    await decide('deny');
    const { result } = await resume(first.runId);
    expect(done).toEqual(['r']);
    expect(JSON.stringify(inner.requests.at(-1)?.messages)).toContain('I say so.');
    expect(result.toolCalls[0]).toMatchObject({
      status: 'succeeded',
      subRun: { toolCalls: [{ status: 'succeeded' }, { status: 'denied' }] },
    });
  });

  it('waits again without a decision, and keeps later writes of the root waiting too', async () => {
    const { play, resume, done } = await stage({
      ...waits,
      outer: [calls(call('research', { prompt: 'a' }), send('s')), text('Told.')],
    });
    const { result: first } = await play();
    expect(first.toolCalls.map(({ status }) => status)).toEqual(['waiting', 'waiting']);
    const { result } = await resume(first.runId);
    expect(result.finishReason).toBe('waiting');
    expect(done).toEqual(['r']);
  });

  it('waits in line with `wait`, and is refused with `deny`', async () => {
    const { loop, request, decide, approvals, done } = await stage(waits);
    const ending = loop.run(request({ approvals: 'wait' }));
    while ((await approvals.list(alice)).length === 0)
      await new Promise((resolve) => setTimeout(resolve, 2));
    await decide('approve');
    expect(await ending).toMatchObject({ finishReason: 'stop' });
    expect(done).toEqual(['r', 'w']);
    const denying = await stage(waits);
    const { result } = await denying.play({ approvals: 'deny' });
    expect(result.toolCalls[0]?.subRun?.toolCalls?.[1]).toMatchObject({ status: 'denied' });
    expect(denying.done).toEqual(['r']);
  });

  it('waits though an interceptor would answer in its place', async () => {
    class Soothing extends ToolInterceptor {
      override intercept(_: unknown, next: () => Promise<unknown>): Promise<unknown> {
        return next().catch(() => 'never mind');
      }
    }
    const { play, decide, resume, done } = await stage({
      ...waits,
      options: { ...options, providers: [Soothing] },
    });
    const { result: first } = await play();
    expect(first.finishReason).toBe('waiting');
    await decide('approve');
    expect((await resume(first.runId)).result.finishReason).toBe('stop');
    expect(done).toEqual(['r', 'w']);
  });

  it('waits though the run tries again what fails', async () => {
    const readOnly: Policy = { ...asking, requireApproval: [{ tools: ['probe__read'] }] };
    const { play } = await stage({
      inner: [calls(read('r'))],
      subRun: { effect: 'read_only' },
      options: { policy: readOnly },
    });
    const { result, events } = await play({ onToolError: 'retry' });
    expect(result.finishReason).toBe('waiting');
    expect(eventsOf(events, 'approval-request')).toHaveLength(1);
  });

  it('is decided anew when the run continues, and so is the sub-run', async () => {
    const { play, decide, resume, module, done } = await stage(waits);
    const { result: first } = await play();
    await decide('approve');
    module.get(DataPolicyEngine).replace({ version: 'v2', allow: ['probe__*'] });
    const { result } = await resume(first.runId);
    expect(done).toEqual(['r']);
    expect(result.toolCalls).toMatchObject([
      {
        status: 'denied',
        error: { code: 'policy_denied' },
        subRun: { toolCalls: [{ id: 'probe__read' }, {}] },
      },
    ]);
  });

  it('does not ask again for the sub-run itself, whose yes was used when it began', async () => {
    const policy: Policy = {
      ...asking,
      requireApproval: [{ tools: ['research', 'probe__write'] }],
      runBudgets: [{ tools: ['research'], calls: 1 }],
    };
    const { play, decide, resume, approvals, done } = await stage({
      ...waits,
      options: { policy },
    });
    const { result: first } = await play();
    expect(done).toEqual([]);
    await decide('approve');
    expect((await resume(first.runId)).result.finishReason).toBe('waiting');
    expect(await approvals.list(alice)).toMatchObject([{ declaredId: 'probe__write' }]);
    await decide('approve');
    expect((await resume(first.runId)).result).toMatchObject({ finishReason: 'stop' });
    expect(done).toEqual(['r', 'w']);
  });
});

describe('invariant 13: the calls of sub-runs', () => {
  it('invariant 13: have keys of their own, which are the same when the request is made again', async () => {
    const script = {
      outer: [calls(write('outer')), research(), text('Told.')],
      inner: [calls(write('inner')), text('So.')],
    };
    const { play, module, done } = await stage({
      ...script,
      outer: [...script.outer, ...script.outer],
      inner: [...script.inner, ...script.inner],
    });
    const keys: string[] = [];
    const journal = module.get(CallJournal);
    const acquire = journal.acquire.bind(journal);
    journal.acquire = (start) => {
      keys.push(start.idempotencyKey);
      return acquire(start);
    };
    await play({ requestId: 'once' });
    const { result } = await play({ requestId: 'once' });
    expect(done).toEqual(['outer', 'inner']);
    expect(keys.slice(0, 2)).toEqual(keys.slice(2));
    expect(new Set(keys)).toEqual(new Set(['["alice","once",1,0]', '["alice","once",2,0,1,0]']));
    expect(result.toolCalls[1]?.subRun?.toolCalls).toMatchObject([{ status: 'succeeded' }]);
  });
});

describe('invariant 14: the audit', () => {
  it('invariant 14: knows the run of each call, and the root of it', async () => {
    const { play, decide, resume, module } = await stage(waits);
    const { result: first } = await play();
    await decide('approve');
    await resume(first.runId);
    const entries = await module.get(AuditStore).read('acme', { from: 1, limit: 100 });
    const inner = entries.filter(({ declaredId }) => declaredId?.startsWith('probe__'));
    const { runId } = first.toolCalls[0]?.subRun ?? {};
    expect(inner.map(({ kind }) => kind)).toEqual([
      'decision',
      'outcome',
      'decision',
      'approval-request',
      'approval-decision',
      'outcome',
    ]);
    expect(inner.every((entry) => entry.runId === runId && entry.rootRunId === first.runId)).toBe(
      true,
    );
    expect(
      entries
        .filter(({ declaredId }) => declaredId === 'research')
        .every((entry) => entry.runId === first.runId && !entry.rootRunId),
    ).toBe(true);
  });
});
