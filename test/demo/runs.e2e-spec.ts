import { afterAll, describe, expect, it } from '@jest/globals';
import type { LoopEvent } from '@toolloop/core';
import type { RunUndoing, RunView } from '@toolloop/core/runs';
import { call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import { LedgerPayments } from '../../src/refunds/payments.js';
import {
  approve,
  eventsOf,
  model,
  NOTHING,
  REFUND,
  sent,
  started,
  toldToOthers,
  until,
} from './desk-runs.js';
import { ask, close, closeDesks, eventsIn, headersOf, serve } from './served-desk.js';

afterAll(closeDesks);

const SCRIPT: readonly ScriptedTurn[] = [REFUND, text('It is on its way.')];

const sequencesOf = (events: readonly LoopEvent[]): number[] =>
  events.map(({ sequence }) => sequence);

describe('the undoing of a run over HTTP', () => {
  it('has the manager call a refund back, once, and tells others that there is no such run', async () => {
    const desk = await serve({ model: model(...SCRIPT) });
    const runId = await started(desk, 'mia');
    await until(desk, runId, 'ended', 'mia');
    const paid = async () =>
      (await sent<{ status: string }[]>(desk, 'mia', '/directives'))[1][0]?.status;
    while ((await paid()) !== 'succeeded') await new Promise((resolve) => setTimeout(resolve, 10));
    for (const user of ['alice', 'bob'])
      expect(await sent(desk, user, `/runs/${runId}/undo`, {})).toMatchObject([
        404,
        { code: 'unknown_run' },
      ]);
    expect(await sent(desk, 'mia', `/runs/${runId}/undo`, { reason: 7 })).toMatchObject([400, {}]);
    const undone = (user: string) =>
      sent<RunUndoing>(desk, user, `/runs/${runId}/undo`, { reason: 'A mistake.' });
    while ((await undone('mia'))[1].calls[0]?.status !== 'undone')
      await new Promise((resolve) => setTimeout(resolve, 10));
    for (const user of ['mia', 'ops'])
      expect(await undone(user)).toMatchObject([
        200,
        { runId, calls: [{ declaredId: 'refunds__refundOrder', status: 'undone' }] },
      ]);
    const { payouts, recalls } = desk.app.get(LedgerPayments);
    expect([payouts.length, recalls]).toEqual([1, ['pay-1']]);
  });

  it('tells what cannot be undone', async () => {
    const script = [calls(call('orders__sendReceipt', { orderId: 'o-1021' })), text('Sent.')];
    const desk = await serve({ model: model(...script) });
    const runId = await started(desk, 'mia');
    await until(desk, runId, 'ended', 'mia');
    expect(await sent(desk, 'mia', `/runs/${runId}/undo`, {})).toMatchObject([
      200,
      {
        calls: [
          {
            declaredId: 'orders__sendReceipt',
            status: 'not_possible',
            reason: 'It had its effect at once.',
          },
        ],
      },
    ]);
  });
});

describe('a durable run', () => {
  it('is accepted at once, waits for mia, and continues by itself once she says yes', async () => {
    const desk = await serve({ model: model(...SCRIPT) });
    const response = await ask(desk, 'alice', { message: 'Refund o-1021' }, '/runs');
    const { runId } = (await response.json()) as RunView;
    expect([response.status, response.headers.get('location')]).toEqual([202, `runs/${runId}`]);
    const watched = eventsOf(desk, runId); // open while it waits
    expect(await until(desk, runId, 'waiting')).toMatchObject({ finishReason: 'waiting' });
    expect(await approve(desk, runId)).toBe(200);
    const events = await watched;
    expect(events.at(-1)).toMatchObject({
      type: 'run-end',
      finishReason: 'stop',
      text: 'It is on its way.',
    });
    expect(sequencesOf(events)).toEqual(events.map((_, index) => index + 1));
    expect(await sent(desk, 'alice', '/runs')).toMatchObject([
      200,
      [{ runId, status: 'ended', finishReason: 'stop' }],
    ]);
    expect(await sent(desk, 'alice', '/runs?status=waiting')).toEqual([200, []]);
  });

  it('is watched from where a client lost it, and an EventSource that has seen the end is told not to come back', async () => {
    const desk = await serve({ model: model(text('Hello.')) });
    const runId = await started(desk);
    const all = await eventsOf(desk, runId);
    const last = all.length;
    expect(await eventsOf(desk, runId, '?after=2')).toEqual(all.slice(2));
    expect(await eventsOf(desk, runId, '?after=0', { 'last-event-id': '3' })).toEqual(all.slice(3));
    const again = (id: string) =>
      fetch(`${desk.url}/runs/${runId}/events`, {
        headers: { ...headersOf('alice'), 'last-event-id': id },
      });
    expect([(await again(String(last))).status, (await again('x')).status]).toEqual([204, 400]);
  });

  it('is watched by a browser with a ticket', async () => {
    const desk = await serve({ model: model(text('Hello.')) });
    const runId = await started(desk);
    const tickets = await Promise.all(
      ['alice', 'bob'].map(
        async (user) => (await sent<{ ticket: string }>(desk, user, '/chat/tickets', {}))[1],
      ),
    );
    const answers = await Promise.all(
      tickets.map(({ ticket }) => fetch(`${desk.url}/runs/${runId}/events?ticket=${ticket}`)),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 404]);
    expect(eventsIn((await answers[0]?.text()) ?? '').at(-1)).toMatchObject({
      type: 'run-end',
      text: 'Hello.',
    });
  });

  it('continues without a reader when a chat has begun it', async () => {
    const desk = await serve({ model: model(...SCRIPT) });
    const response = await ask(desk, 'alice', { message: 'Refund o-1021', durable: true });
    const reader = response.body?.getReader();
    const { value } = (await reader?.read()) ?? {};
    const [first] = eventsIn(new TextDecoder().decode(value));
    await reader?.cancel();
    const runId = first?.runId ?? '';
    await until(desk, runId, 'waiting');
    await approve(desk, runId);
    expect(await until(desk, runId, 'ended')).toMatchObject({ finishReason: 'stop' });
  });

  it('is looked at again by a resume, which shows its events from the first', async () => {
    const desk = await serve({ model: model(...SCRIPT) });
    const runId = await started(desk);
    await until(desk, runId, 'waiting');
    await approve(desk, runId);
    const events = eventsIn(await (await ask(desk, 'alice', {}, `/runs/${runId}/resume`)).text());
    expect([sequencesOf(events)[0], events.at(-1)]).toMatchObject([1, { finishReason: 'stop' }]);
  });

  it('is cancelled while it waits, and its refund is never asked for', async () => {
    const desk = await serve({ model: model(REFUND) });
    const runId = await started(desk);
    await until(desk, runId, 'waiting');
    expect((await sent(desk, 'alice', `/runs/${runId}/cancel`, { reason: 'She called.' }))[0]).toBe(
      202,
    );
    expect(await until(desk, runId, 'ended')).toMatchObject({ finishReason: 'aborted' });
    expect(desk.app.get(LedgerPayments).payouts).toEqual([]);
  });

  it('is gone off from after a step', async () => {
    const find = calls(call('crm__searchCustomers', { name: 'John' }));
    const desk = await serve({ model: model(find, text('One.'), text('Another.')) });
    const runId = await started(desk);
    await until(desk, runId, 'ended');
    const [status, fork] = await sent<RunView>(desk, 'alice', `/runs/${runId}/fork`, { step: 1 });
    expect([status, fork.forkOf]).toEqual([202, { runId, step: 1 }]);
    await until(desk, fork.runId, 'ended');
    expect((await eventsOf(desk, fork.runId)).at(-1)).toMatchObject({ text: 'Another.' });
    expect((await sent(desk, 'alice', `/runs/${runId}/fork`, { step: 9 }))[0]).toBe(400);
  });

  it.each([
    ['/runs', {}],
    ['/runs', { message: 'Hello', tenant: 'globex' }],
    ['/runs', { message: 'Hello', actor: { id: 'mia' } }],
    ['/chat', { message: 'Hello', durable: 'yes' }],
    ['/chat/answer', { message: 'Hello', durable: true }],
    ['/runs/x/fork', { step: -1 }],
    ['/runs/x/cancel', { reason: 1 }],
  ])('is not asked for at %s by %j', async (path, body) => {
    expect(await sent(await serve({ model: model() }), 'alice', path, body)).toMatchObject([
      400,
      { code: 'bad_request' },
    ]);
  });
});

describe('a run of somebody else', () => {
  it('is not there for another tenant, nor for a manager, nor by a made-up id', async () => {
    expect(await toldToOthers(await serve({ model: model(REFUND) }))).toEqual(NOTHING);
  });

  it('needs a token', async () => {
    const desk = await serve({ model: model() });
    const paths = ['/runs', '/runs/x', '/runs/x/events'];
    expect(
      await Promise.all(paths.map(async (path) => (await fetch(desk.url + path)).status)),
    ).toEqual([401, 401, 401]);
  });
});

describe('a desk that is closed while a run waits', () => {
  it('ends the streams of who watches, and says that it leaves', async () => {
    const desk = await serve({ model: model(REFUND) });
    const runId = await started(desk);
    await until(desk, runId, 'waiting');
    const watched = eventsOf(desk, runId);
    const ready = await sent(desk, 'alice', '/health/ready');
    await close(desk);
    expect(ready).toEqual([200, { status: 'ready', database: 'up' }]);
    expect((await watched).at(-1)).toMatchObject({ type: 'run-end', finishReason: 'waiting' });
  });
});
