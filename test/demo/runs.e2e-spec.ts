import { afterAll, describe, expect, it } from '@jest/globals';
import type { LanguageModel, LoopEvent } from '@toolloop/core';
import type { RunUndoing, RunView } from '@toolloop/core/runs';
import { Database } from '@toolloop/durable';
import { call, calls, ScriptedModel, text, type ScriptedTurn } from '@toolloop/testing';
import { createDatabaseFolder } from '../../libs/durable/test/databases.js';
import { LedgerPayments } from '../../src/refunds/payments.js';
import { ask, close, closeDesks, eventsIn, headersOf, ofType, serve, type ServedDesk } from './served-desk.js';

const folders: (() => Promise<void>)[] = [];

afterAll(async () => {
  await closeDesks();
  await Promise.all(folders.map((drop) => drop()));
});

const REFUND = calls(call('refunds__refundOrder', { orderId: 'o-1021' }));
const SCRIPT: readonly ScriptedTurn[] = [REFUND, text('It is on its way.')];
const model = (...turns: readonly ScriptedTurn[]): LanguageModel => new ScriptedModel(turns);

async function sent<Body = { code?: string }>(desk: ServedDesk, user: string, path: string, body?: unknown): Promise<[number, Body]> {
  const response = body === undefined ? await fetch(desk.url + path, { headers: headersOf(user) }) : await ask(desk, user, body, path);
  return [response.status, (await response.json()) as Body];
}

async function started(desk: ServedDesk, user = 'alice', message = 'Refund o-1021'): Promise<string> {
  const [status, run] = await sent<RunView>(desk, user, '/runs', { message });
  expect(status).toBe(202);
  return run.runId;
}

async function until(desk: ServedDesk, runId: string, status: string, user = 'alice'): Promise<RunView> {
  for (let looks = 0; looks < 600; looks += 1) {
    const [, run] = await sent<RunView>(desk, user, `/runs/${runId}`);
    if (run.status === status) return run;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`The run ${runId} is not ${status}.`);
}

async function eventsOf(desk: ServedDesk, runId: string, query = '', headers: Record<string, string> = {}): Promise<LoopEvent[]> {
  const response = await fetch(`${desk.url}/runs/${runId}/events${query}`, { headers: { ...headersOf('alice'), ...headers } });
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
  return eventsIn(await response.text());
}

async function approve(desk: ServedDesk, runId: string): Promise<number> {
  const [, open] = await sent<{ approvalId: string; runId: string }[]>(desk, 'mia', '/approvals');
  const asked = open.find((one) => one.runId === runId);
  return (await sent(desk, 'mia', `/approvals/${asked?.approvalId}`, { decision: 'approve' }))[0];
}

const sequencesOf = (events: readonly LoopEvent[]): number[] => events.map(({ sequence }) => sequence);

describe('the undoing of a run over HTTP', () => {
  it('has the manager call a refund back, once, and tells others that there is no such run', async () => {
    const desk = await serve({ model: model(...SCRIPT) });
    const runId = await started(desk, 'mia');
    await until(desk, runId, 'ended', 'mia');
    const paid = async () => (await sent<{ status: string }[]>(desk, 'mia', '/directives'))[1][0]?.status;
    while ((await paid()) !== 'succeeded') await new Promise((resolve) => setTimeout(resolve, 10));
    for (const user of ['alice', 'bob'])
      expect(await sent(desk, user, `/runs/${runId}/undo`, {})).toMatchObject([404, { code: 'unknown_run' }]);
    expect(await sent(desk, 'mia', `/runs/${runId}/undo`, { reason: 7 })).toMatchObject([400, {}]);
    const undone = (user: string) => sent<RunUndoing>(desk, user, `/runs/${runId}/undo`, { reason: 'A mistake.' });
    while ((await undone('mia'))[1].calls[0]?.status !== 'undone') await new Promise((resolve) => setTimeout(resolve, 10));
    for (const user of ['mia', 'ops'])
      expect(await undone(user)).toMatchObject([200, { runId, calls: [{ declaredId: 'refunds__refundOrder', status: 'undone' }] }]);
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
      { calls: [{ declaredId: 'orders__sendReceipt', status: 'not_possible', reason: 'It had its effect at once.' }] },
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
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop', text: 'It is on its way.' });
    expect(sequencesOf(events)).toEqual(events.map((_, index) => index + 1));
    expect(await sent(desk, 'alice', '/runs')).toMatchObject([200, [{ runId, status: 'ended', finishReason: 'stop' }]]);
    expect(await sent(desk, 'alice', '/runs?status=waiting')).toEqual([200, []]);
  });

  it('is watched from where a client lost it, and an EventSource that has seen the end is told not to come back', async () => {
    const desk = await serve({ model: model(text('Hello.')) });
    const runId = await started(desk);
    const all = await eventsOf(desk, runId);
    const last = all.length;
    expect(await eventsOf(desk, runId, '?after=2')).toEqual(all.slice(2));
    expect(await eventsOf(desk, runId, '?after=0', { 'last-event-id': '3' })).toEqual(all.slice(3));
    const again = (id: string) => fetch(`${desk.url}/runs/${runId}/events`, { headers: { ...headersOf('alice'), 'last-event-id': id } });
    expect([(await again(String(last))).status, (await again('x')).status]).toEqual([204, 400]);
  });

  it('is watched by a browser with a ticket', async () => {
    const desk = await serve({ model: model(text('Hello.')) });
    const runId = await started(desk);
    const tickets = await Promise.all(
      ['alice', 'bob'].map(async (user) => (await sent<{ ticket: string }>(desk, user, '/chat/tickets', {}))[1]),
    );
    const answers = await Promise.all(tickets.map(({ ticket }) => fetch(`${desk.url}/runs/${runId}/events?ticket=${ticket}`)));
    expect(answers.map(({ status }) => status)).toEqual([200, 404]);
    expect(eventsIn((await answers[0]?.text()) ?? '').at(-1)).toMatchObject({ type: 'run-end', text: 'Hello.' });
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
    expect((await sent(desk, 'alice', `/runs/${runId}/cancel`, { reason: 'She called.' }))[0]).toBe(202);
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
    expect(await sent(await serve({ model: model() }), 'alice', path, body)).toMatchObject([400, { code: 'bad_request' }]);
  });
});

async function folder(): Promise<string> {
  const { dataDir, drop } = await createDatabaseFolder();
  folders.push(drop);
  return dataDir;
}

describe('a run of somebody else', () => {
  it.each(['memory', 'a folder'])(
    'is not there for another tenant, nor for a manager, nor by a made-up id, in %s',
    async (place) => {
      const settings = place === 'memory' ? {} : { dataDir: await folder() };
      const desk = await serve({ model: model(REFUND), settings });
      const runId = await started(desk);
      await until(desk, runId, 'waiting');
      const tried = [
        ...['bob', 'mia'].map((user) => [user, runId]),
        ...['made-up', '%00', '__proto__', '%2e%2e%2f', `${runId}%00`, 'x'.repeat(2000)].map((id) => ['alice', id]),
      ];
      for (const [user = '', id = ''] of tried) {
        const asked = await Promise.all([
          sent(desk, user, `/runs/${id}`),
          sent(desk, user, `/runs/${id}/events`),
          sent(desk, user, `/runs/${id}/cancel`, {}),
          sent(desk, user, `/runs/${id}/fork`, { step: 0 }),
          sent(desk, user, `/runs/${id}/resume`, {}),
          sent(desk, user, `/runs/${id}/resume/answer`, {}),
        ]);
        expect([id, asked.map(([status]) => status)]).toEqual([id, [404, 404, 404, 404, 404, 404]]);
      }
      expect(await sent(desk, 'bob', '/runs')).toEqual([200, []]);
      expect(await sent(desk, 'bob', `/runs?after=${runId}`)).toEqual([200, []]);
      expect((await until(desk, runId, 'waiting')).lastSequence).toBeGreaterThan(0);
    },
    60_000,
  );

  it('is not there either where the database takes its time to say so', async () => {
    const desk = await serve({ model: model(), settings: { dataDir: await folder() } });
    const busy = desk.app.get<Database>(Database, { strict: false }).transaction(() => new Promise((resolve) => setTimeout(resolve, 500)));
    expect(await sent(desk, 'alice', '/runs/made-up/events')).toMatchObject([404, { code: 'unknown_run' }]);
    await busy;
  }, 60_000);

  it('needs a token', async () => {
    const desk = await serve({ model: model() });
    const paths = ['/runs', '/runs/x', '/runs/x/events'];
    expect(await Promise.all(paths.map(async (path) => (await fetch(desk.url + path)).status))).toEqual([401, 401, 401]);
  });
});

describe('a desk that is closed while a run waits', () => {
  it('continues it after the next start, in the same folder, once mia says yes', async () => {
    const dataDir = await folder();
    const auditKey = 'k'.repeat(32);
    const first = await serve({ model: model(REFUND), settings: { dataDir, auditKey } });
    const runId = await started(first);
    const { lastSequence } = await until(first, runId, 'waiting');
    const chat = eventsIn(await (await ask(first, 'alice', { message: 'And?' })).text().catch(() => ''));
    expect(chat.at(-1)).toMatchObject({ finishReason: 'error' }); // the script is over
    await close(first);

    const second = await serve({ model: model(text('It is on its way.')), settings: { dataDir, auditKey } });
    expect(await until(second, runId, 'waiting')).toMatchObject({ lastSequence });
    const watched = eventsOf(second, runId, `?after=${lastSequence}`);
    expect(await approve(second, runId)).toBe(200);
    const events = await watched;
    expect(ofType(events, 'directive-request')).toMatchObject([{ directive: { subject: 'o-1021' } }]);
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop', text: 'It is on its way.' });
    expect(events[0]?.sequence).toBe(lastSequence + 1);
  }, 60_000);

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
