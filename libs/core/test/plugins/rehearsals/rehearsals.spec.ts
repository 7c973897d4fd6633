import { describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { type Policy, tool, ToolLoopModule } from '@toolloop/core';
import {
  CallJournal,
  ConversationStore,
  DirectiveStore,
  MemoryPendingStore,
  PendingStore,
} from '@toolloop/core/stores';
import { call, calls, collect, eventsOf, ScriptedModel, text, troubled } from '@toolloop/testing';
import { alice, desk, desked, open, Staff } from './rehearsal-desk.js';

describe('a rehearsal', () => {
  it.each(['write', 'send', 'book', 'ask'])(
    'makes no call that changes something, previews it, and says so to the model: %s',
    async (id) => {
      const { rehearse, called, model, module } = await desk([calls(desked(id)), text('Done.')]);
      const result = await rehearse();
      expect(called).toEqual([]);
      expect(result).toMatchObject({
        finishReason: 'waiting',
        waitingFor: 'rehearsal',
        text: 'Done.',
        toolCalls: [
          { status: 'succeeded', rehearsal: 'previewed', result: { status: 'previewed' } },
        ],
        rehearsal: {
          status: 'waiting',
          calls: [{ declaredId: `desk__${id}`, as: 'previewed', args: { key: 'a' } }],
        },
      });
      const [asked] = await module.get<PendingStore>(PendingStore).list({ tenant: 'acme' });
      expect(result.rehearsal?.rehearsalId).toBe(asked?.id); // by which it is answered
      expect(JSON.stringify(model.requests[1]?.messages)).toContain(
        'This is a rehearsal: the call was not made',
      );
    },
  );

  it("shows what the tool's own preview tells, to the model and to people", async () => {
    const { rehearse, model } = await desk([calls(desked('write')), text('Done.')]);
    const preview = { sentence: 'Writes a.', changes: [{ field: 'key', after: 'a' }] };
    expect((await rehearse()).rehearsal?.calls).toMatchObject([{ preview }]);
    expect(JSON.stringify(model.requests[1]?.messages)).toContain('Writes a.');
  });

  it.each([
    ['a read that lets data out', desked('fetch')],
    ['a call of the client', desked('pick')],
  ])('leaves out %s, for good', async (_what, one) => {
    const { rehearse, called, module } = await desk([calls(one), text('Done.')]);
    const result = await rehearse();
    expect(called).toEqual([]);
    expect(result.toolCalls).toMatchObject([{ rehearsal: 'previewed' }]);
    expect(result.rehearsal?.calls).toEqual([]);
    expect(await module.get<PendingStore>(PendingStore).list({ tenant: 'acme' })).toEqual([]);
  });

  it('begins no sub-run, whose calls would be made by a model that is asked once more', async () => {
    const { rehearse, model } = await desk([
      calls(call('desk__delegate', { prompt: 'Look.' })),
      text('Done.'),
    ]);
    expect((await rehearse()).toolCalls).toMatchObject([{ rehearsal: 'previewed' }]);
    expect(model.requests).toHaveLength(2);
  });

  it('invariant 19: makes no call of a tool from an untrusted source, whatever that says of itself', async () => {
    const { rehearse } = await desk([calls(call('strange__write', { key: 'a' })), text('Done.')]);
    expect((await rehearse()).toolCalls).toMatchObject([
      { declaredId: 'strange__write', rehearsal: 'previewed' },
    ]);
  });

  it('makes reads, unless a person would have to approve them', async () => {
    const script = [calls(desked('look')), text('Done.')];
    const free = await desk(script);
    expect((await free.rehearse()).toolCalls).toMatchObject([
      { status: 'succeeded', rehearsal: 'rehearsed', result: { key: 'a' } },
    ]);
    expect(free.called).toEqual(['look a']);
    const kept = await desk(script, { ...open, requireApproval: [{ tools: ['desk__look'] }] });
    expect((await kept.rehearse()).toolCalls).toMatchObject([{ rehearsal: 'previewed' }]);
    expect(kept.called).toEqual([]);
  });

  it('is refused what a run is refused, and asks no one about single calls', async () => {
    const policy: Policy = {
      ...open,
      deny: ['desk__send'],
      requireApproval: [{ tools: ['desk__write'], roles: ['manager'], reason: 'It writes.' }],
    };
    const { rehearse, module } = await desk(
      [calls(desked('send'), desked('write')), text('Done.')],
      policy,
    );
    const result = await rehearse();
    expect(result.toolCalls).toMatchObject([
      { status: 'denied' },
      { status: 'succeeded', rehearsal: 'previewed' },
    ]);
    expect(result.rehearsal?.calls).toMatchObject([
      { declaredId: 'desk__write', reason: 'It writes.' },
    ]);
    expect(
      (await module.get<PendingStore>(PendingStore).list({ tenant: 'acme' })).map(
        ({ kind }) => kind,
      ),
    ).toEqual(['rehearsal']);
  });

  it('takes no key, requests no directive and writes to no conversation', async () => {
    const { rehearse, module } = await desk([
      calls(desked('write'), desked('book')),
      text('Done.'),
    ]);
    await rehearse({ conversationId: 'c1', requestId: 'r1' });
    const journalled = {
      tenant: 'acme',
      declaredId: 'desk__write',
      args: '{"key":"a"}',
      idempotencyKey: JSON.stringify(['alice', 'r1', 1, 0]),
    };
    expect(await module.get<CallJournal>(CallJournal).find(journalled)).toBeUndefined();
    expect(await module.get<DirectiveStore>(DirectiveStore).list({ tenant: 'acme' })).toEqual([]);
    expect(
      await module
        .get<ConversationStore>(ConversationStore)
        .load({ tenant: 'acme', actorId: 'alice', conversationId: 'c1' }),
    ).toEqual([]);
  });

  it.each(['write', 'send', 'book', 'ask'])(
    'can be that of one call without a model, which changes nothing and asks no one: %s',
    async (id) => {
      const { loop, called, module, entries } = await desk([], {
        ...open,
        requireApproval: [{ tools: ['desk__write'], reason: 'It writes.' }],
      });
      const { record, waiting } = await loop.call({
        tool: `desk__${id}`,
        args: { key: 'a' },
        rehearse: true,
        ...alice,
      });
      expect(record).toMatchObject({
        status: 'succeeded',
        rehearsal: 'previewed',
        result: { status: 'previewed' },
      });
      expect([called, waiting]).toEqual([[], undefined]);
      expect(await module.get<PendingStore>(PendingStore).list({ tenant: 'acme' })).toEqual([]);
      expect((await entries()).every(({ isRehearsal }) => isRehearsal)).toBe(true);
    },
  );

  it('makes a read that is called by itself, and says nothing about the call behind it', async () => {
    const { loop, called } = await desk([]);
    const look = { tool: 'desk__look', args: { key: 'a' }, ...alice };
    expect((await loop.call({ ...look, rehearse: true })).record.rehearsal).toBe('rehearsed');
    expect((await loop.call(look)).record.rehearsal).toBeUndefined();
    expect(called).toEqual(['look a', 'look a']);
  });

  it('invariant 14: is known as a rehearsal in the audit and in the events of the run', async () => {
    const { loop, entries } = await desk([calls(desked('write'), desked('look')), text('Done.')]);
    const events = await collect(loop.stream({ prompt: 'Go on.', ...alice, rehearse: true }));
    expect(events[0]).toMatchObject({ type: 'run-start', isRehearsal: true });
    expect(events.at(-1)).toMatchObject({
      type: 'run-end',
      rehearsal: { calls: [{ declaredId: 'desk__write' }] },
    });
    expect(eventsOf(events, 'tool-result').map(({ record }) => record.rehearsal)).toEqual([
      'previewed',
      'rehearsed',
    ]);
    const told = (await entries()).map(({ kind, declaredId, isRehearsal }) => [
      kind,
      declaredId,
      isRehearsal,
    ]);
    expect(told).toEqual([
      ['decision', 'desk__write', true],
      ['decision', 'desk__look', true],
      ['outcome', 'desk__look', true],
      ['pending-request', 'rehearsal', true],
    ]);
  });

  it('counts in the budgets of policies as a run does', async () => {
    const policy: Policy = { ...open, runBudgets: [{ tools: ['desk__write'], calls: 1 }] };
    const { rehearse } = await desk(
      [calls(desked('write'), desked('write', 'b')), text('Done.')],
      policy,
    );
    expect((await rehearse()).toolCalls).toMatchObject([
      { status: 'succeeded' },
      { status: 'failed', error: { code: 'budget_exceeded' } },
    ]);
  });

  it('ends in an error where what it asks cannot be kept, and performs nothing', async () => {
    const store = troubled(new MemoryPendingStore(), {
      method: 'add',
      answer: () => Promise.reject(new Error('The disk is full.')),
    });
    const { rehearse, called } = await desk([calls(desked('write')), text('Done.')], open, [
      { provide: PendingStore, useValue: store },
    ]);
    await expect(rehearse()).rejects.toThrow('an operator has to look at it. Nothing was lost.');
    expect(called).toEqual([]);
  });

  it('is no way to resume a run that was begun in earnest', async () => {
    const { loop } = await desk([calls(desked('write'))], { ...open, requireApproval: [{}] });
    const { runId } = await loop.run({ prompt: 'Go on.', ...alice });
    await expect(loop.resume(runId, { ...alice, rehearse: true })).rejects.toThrow(
      'begun in earnest',
    );
  });
});

const ship = (more: Partial<Parameters<typeof tool>[0]> = {}) =>
  tool({
    id: 'shop__ship',
    description: 'Ships.',
    effect: 'state_change',
    reveal: [],
    rehearse: 'transaction',
    execute: () => undefined,
    ...more,
  });

const started = (shipping: ReturnType<typeof ship>) =>
  Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy: open, tools: [shipping] }),
    ],
    providers: [Staff],
  })
    .compile()
    .then((module) => module.useLogger(false) ?? module.init());

describe('a tool that says it can be rehearsed', () => {
  it.each<[string, Partial<Parameters<typeof tool>[0]>, string]>([
    ['that only reads', { effect: 'read_only' }, 'its effect is read_only'],
    [
      'with an effect outside',
      { effect: 'external_side_effect' },
      'its effect is external_side_effect',
    ],
    ['that lets data out', { labels: { egress: true } }, 'it lets data out'],
    ['with a directive', { directive: { type: 'ship', subject: 'x' } }, 'it requests a directive'],
    ['in an application without a database', {}, 'the application has no database'],
  ])('is a finding at start where it cannot: one %s', async (_what, more, problem) => {
    await expect(started(ship(more))).rejects.toThrow(problem);
  });

  it('is a finding where it names rows and no rehearsal makes its calls', async () => {
    const silent = tool({
      id: 'shop__ship',
      description: 'Ships.',
      effect: 'state_change',
      reveal: [],
      rowsBefore: () => ({}),
      execute: () => undefined,
    });
    await expect(started(silent)).rejects.toThrow('It has rowsBefore');
  });
});
