import { describe, expect, it } from '@jest/globals';
import { type Policy, ToolError } from '@toolloop/core';
import { MemoryDirectiveStore } from '@toolloop/core/stores';
import {
  ScriptedModel,
  call,
  calls,
  collect,
  eventsOf as eventsOfType,
  text,
} from '@toolloop/testing';
import { alice, answerIn, bob, desk, eventsOf, mia, once, OPEN, refund, world } from './bench.js';

const waiting = { directives: { perform: false } };

describe('a call of a tool with a directive', () => {
  it('has no effect yet, and answers what was asked for', async () => {
    const { run, bank, service } = await desk(once, waiting);
    const result = await run({ requestId: 'req-1' });
    const [one] = await service.list(alice);
    expect(bank.effects).toEqual([]);
    expect(answerIn(result)).toEqual({
      ok: true,
      type: 'order.refund.requested',
      result: {
        directive_id: one?.directiveId,
        status: 'pending',
        preview: { sentence: 'Refunds it for o-1' },
        subject: 'o-1',
      },
      human_readable:
        'Requested: Refunds it for o-1. It is performed later, once; it has not happened yet.',
    });
    expect(result.toolCalls[0]).toMatchObject({
      status: 'succeeded',
      directiveId: one?.directiveId,
      result: answerIn(result),
    });
  });

  it('is kept under a key of type, tenant, subject and request, each part URI-encoded', async () => {
    const shared = world();
    const { run } = await desk([refund('o:1/ä'), text('Done.')], { ...waiting, shared });
    await run({ requestId: 'req 1' });
    const [record] = await shared.directives.list({ tenant: 'acme' });
    expect(record?.intent.key).toBe('order.refund:acme:o%3A1%2F%C3%A4:req%201');
  });

  it('is told in the run, with what the ui may see', async () => {
    const { loop, service } = await desk(once, waiting);
    const events = await collect(loop.open({ prompt: 'Refund it.', ...alice }).events$);
    const [one] = await service.list(alice);
    const told = eventsOfType(events, 'directive-request');
    expect(told).toMatchObject([
      {
        step: 1,
        directive: {
          directiveId: one?.directiveId,
          type: 'order.refund',
          subject: 'o-1',
          status: 'pending',
        },
      },
    ]);
    expect(eventsOfType(events, 'tool-start')).toEqual([]);
  });

  it('happens once, later, in the name of who asked, with the key of the directive', async () => {
    const { run, bank, until } = await desk();
    await run({ requestId: 'req-1' });
    const done = await until('succeeded');
    expect(bank.effects).toEqual([
      {
        did: 'refund',
        orderId: 'o-1',
        amount: 10,
        tenant: 'acme',
        actorId: 'alice',
        key: 'order.refund:acme:o-1:req-1',
      },
    ]);
    expect(done).toMatchObject({
      result: { refund: 'r-1' },
      attempts: 1,
      requestedBy: 'alice',
      correlationId: 'req-1',
    });
  });

  it('is reported to the run that requested it, while that run is active', async () => {
    const { loop, until } = await desk([
      refund(),
      calls(call('bank__refund', { orderId: 'o-2', amount: 1 })),
      text('Done.'),
    ]);
    const handle = loop.open({
      prompt: 'Refund it.',
      ...alice,
      prepareStep: async ({ step }) => void (step === 2 && (await until('succeeded'))),
    });
    const events = await collect(handle.events$);
    const updates = eventsOfType(events, 'directive-update').filter(
      ({ directive }) => directive.subject === 'o-1',
    );
    expect(updates.map(({ event, step, directive }) => [event, step, directive.status])).toEqual([
      ['started', 1, 'performing'],
      ['succeeded', 1, 'succeeded'],
    ]);
    expect(events.at(-1)?.type).toBe('run-end');
  });

  it('is refused to an actor whom nothing identifies, since it happens in the name of an actor', async () => {
    const { run, service } = await desk(once, waiting);
    const result = await run({ actor: { roles: [] } });
    expect(result.toolCalls[0]?.error?.code).toBe('forbidden');
    expect(await service.list(mia)).toEqual([]);
  });

  it('is refused where the subject names nothing, or is too long', async () => {
    const { run } = await desk(
      [refund(' '), refund('x'.repeat(300)), refund('\ud800'), text('Done.')],
      waiting,
    );
    const { toolCalls } = await run();
    expect(toolCalls.map(({ error }) => error?.code)).toEqual([
      'invalid_args',
      'invalid_args',
      'invalid_args',
    ]);
  });

  it('is not asked about where a preview is required and fails: the model reads why', async () => {
    const shared = world();
    shared.bank.preview = () => {
      throw new ToolError('There is no such order.');
    };
    const policy: Policy = { ...OPEN, requireApproval: [{ tools: ['bank__refund'] }] };
    const { run } = await desk(once, {
      ...waiting,
      shared,
      policy,
      directive: { preview: 'required' },
    });
    const { toolCalls } = await run();
    expect(toolCalls).toMatchObject([
      {
        status: 'failed',
        error: { safeMessage: expect.stringContaining('There is no such order.') },
      },
    ]);
    expect(await shared.approvals.list({ tenant: 'acme' })).toEqual([]);
  });

  it('is refused where a preview is required and fails, and does without where it is not', async () => {
    const shared = world();
    shared.bank.preview = () => {
      throw new Error('no preview');
    };
    const strict = await desk(once, { ...waiting, shared, directive: { preview: 'required' } });
    expect((await strict.run()).toolCalls[0]?.error?.code).toBe('execution_failed');
    const lax = await desk(once, { ...waiting, shared });
    expect(answerIn(await lax.run()).result).toEqual({
      directive_id: expect.any(String),
      status: 'pending',
      subject: 'o-1',
    });
  });
});

describe('the same request again', () => {
  it('is answered with the first, and its status of now', async () => {
    const { run, bank, until, service } = await desk([refund(), text('1'), refund(), text('2')]);
    const first = answerIn(await run({ requestId: 'req-1' }));
    await until('succeeded');
    const second = answerIn(await run({ requestId: 'req-1' }));
    expect(second.result).toMatchObject({
      directive_id: first.result['directive_id'],
      status: 'succeeded',
    });
    expect(second.human_readable).toContain('was requested before');
    expect([bank.effects.length, (await service.list(alice)).length]).toEqual([1, 1]);
  });

  it('is a conflict with other arguments, said clearly, and requests nothing', async () => {
    const { run, service } = await desk(
      [refund('o-1', 10), refund('o-1', 20), text('Done.')],
      waiting,
    );
    const { toolCalls } = await run();
    expect(toolCalls[1]).toMatchObject({
      status: 'failed',
      error: { safeMessage: expect.stringContaining('with other arguments') },
    });
    expect((await service.list(alice)).map(({ args }) => args)).toEqual([
      { orderId: 'o-1', amount: 10 },
    ]);
  });

  it('is another directive for another request, unless the tool has a key of its own', async () => {
    const script = [refund(), text('1'), refund(), text('2')];
    const free = await desk(script, waiting);
    for (const requestId of ['req-1', 'req-2']) await free.run({ requestId });
    expect(await free.service.list(alice)).toHaveLength(2);
    const whole = await desk(script, { ...waiting, directive: { key: 'whole' } });
    for (const requestId of ['req-1', 'req-2']) await whole.run({ requestId });
    expect(await whole.service.list(alice)).toHaveLength(1);
  });

  it('is a conflict under the same request id by a colleague, and the same directive under a key of the tool', async () => {
    const script = [refund(), text('1'), refund(), text('2')];
    const free = await desk(script, {
      ...waiting,
      directives: { perform: false, operators: ['manager'] },
    });
    await free.run({ requestId: 'r' });
    expect((await free.run({ requestId: 'r', ...mia })).toolCalls[0]?.error?.safeMessage).toContain(
      'for another actor',
    );
    const whole = await desk(script, { ...waiting, directive: { key: 'whole' } });
    const ids = [
      await whole.run({ requestId: 'r' }),
      await whole.run({ requestId: 'r', ...mia }),
    ].map((one) => answerIn(one).result['directive_id']);
    expect(new Set(ids).size).toBe(1);
  });

  it('is another directive in another tenant, which the first cannot see', async () => {
    const { run, service, bank, until } = await desk([refund(), text('1'), refund(), text('2')], {
      directive: { key: 'whole' },
    });
    await run();
    await run(bob);
    await until('succeeded');
    await until('succeeded', bob);
    expect(new Set(bank.effects.map(({ tenant, actorId }) => `${tenant} ${actorId}`))).toEqual(
      new Set(['acme alice', 'globex bob']),
    );
    expect(bank.effects).toHaveLength(2);
    const [ours] = await service.list(alice);
    const [theirs] = await service.list(bob);
    expect(ours?.directiveId).not.toBe(theirs?.directiveId);
    await expect(service.get(theirs?.directiveId ?? '', mia)).rejects.toMatchObject({
      code: 'not_found',
    });
    await expect(service.cancel(theirs?.directiveId ?? '', mia)).rejects.toMatchObject({
      code: 'not_found',
    });
  });
});

describe('invariant 13', () => {
  it('invariant 13: 500 requests of one refund at once are one refund, after a restart, too', async () => {
    const shared = world();
    const desks = await Promise.all([1, 2].map(() => desk([], { shared })));
    const runs = desks.flatMap(({ loop }) =>
      Array.from({ length: 250 }, () =>
        loop.open({
          prompt: 'Refund it.',
          ...alice,
          requestId: 'one',
          model: new ScriptedModel(once),
        }),
      ),
    );
    const results = await Promise.all(runs.map((run) => run.result));
    await desks[0]?.until('succeeded');
    const ids = new Set(results.map((result) => answerIn(result).result['directive_id']));
    expect([ids.size, shared.bank.effects.length]).toEqual([1, 1]);
    await Promise.all(desks.map(({ module }) => module.close()));
    const again = await desk(once, { shared });
    expect(answerIn(await again.run({ requestId: 'one' })).result['status']).toBe('succeeded');
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(shared.bank.effects).toHaveLength(1);
  });
});

describe('the events of directives', () => {
  it('tell every change with the id of the request, and hold no argument', async () => {
    const { run, service, until, bank } = await desk();
    const events = eventsOf(service);
    bank.before = () => {
      bank.before = () => undefined;
      throw new Error('connection reset');
    };
    await run({ requestId: 'req-1' });
    await until('unknown_outcome');
    const [one] = await service.list(alice);
    await service.redrive(one?.directiveId ?? '', alice, { tookPlace: false });
    await until('succeeded');
    await service.cancel(one?.directiveId ?? '', alice);
    await until('compensated');
    expect(events.map(({ event }) => event)).toEqual([
      'requested',
      'started',
      'unknown_outcome',
      'redriven',
      'retried',
      'started',
      'succeeded',
      'cancelled',
      'started',
      'compensated',
    ]);
    expect(new Set(events.map(({ correlationId }) => correlationId))).toEqual(new Set(['req-1']));
    expect(JSON.stringify(events)).not.toContain('amount');
  });

  it('are those of the store, so that another process hears of them as well', async () => {
    const shared = world();
    const asking = await desk(once, { ...waiting, shared });
    const heard = eventsOf(asking.service);
    const performing = await desk(once, { shared });
    await asking.run();
    await performing.until('succeeded');
    expect(heard.map(({ event }) => event)).toEqual(['requested', 'started', 'succeeded']);
    expect(shared.directives).toBeInstanceOf(MemoryDirectiveStore);
  });
});
