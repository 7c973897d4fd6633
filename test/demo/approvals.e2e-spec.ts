import { afterAll, afterEach, describe, expect, it, jest } from '@jest/globals';
import type { ApprovalRequest, LoopEvent } from '@toolloop/core';
import { AuditTrail } from '@toolloop/core/audit';
import {
  call,
  calls,
  expectRunEndsOnce,
  ScriptedModel,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { OutboxMailer } from '../../src/orders/mailer.js';
import {
  ask,
  closeDesks,
  eventsIn,
  eventsOf,
  headersOf,
  ofType,
  serve,
  type ServedDesk,
} from './served-desk.js';

afterAll(closeDesks);
afterEach(() => {
  jest.restoreAllMocks();
});

const SEND = calls(call('orders__sendReceipt', { orderId: 'o-1021' }));
const HOUR_MS = 3_600_000;

/** A run of alice's that waits for a manager. */
async function waiting(script: readonly ScriptedTurn[] = [SEND, text('Sent.')]) {
  const desk = await serve({ model: new ScriptedModel(script) });
  const events = await eventsOf(desk, 'alice', 'Send the receipt of o-1021');
  expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'waiting' });
  const [asked] = ofType(events, 'approval-request');
  return {
    desk,
    events,
    runId: events[0]?.runId ?? '',
    approvalId: asked?.approval.approvalId ?? '',
    mailer: desk.app.get(OutboxMailer),
  };
}

interface Answered {
  readonly status: number;
  readonly body: unknown;
}

async function got(desk: ServedDesk, user: string, path: string): Promise<Answered> {
  const response = await fetch(desk.url + path, { headers: headersOf(user) });
  return { status: response.status, body: await response.json() };
}

async function listed(desk: ServedDesk, user: string): Promise<ApprovalRequest[]> {
  return (await got(desk, user, '/approvals')).body as ApprovalRequest[];
}

/** Status and code of an answer, or its decision. */
async function decided(
  desk: ServedDesk,
  user: string,
  approvalId: string,
  body: unknown = { decision: 'approve' },
) {
  const response = await ask(desk, user, body, `/approvals/${approvalId}`);
  const said = (await response.json()) as { code?: string; answer?: { decision: string } };
  return [response.status, said.code ?? said.answer?.decision];
}

async function resumed(desk: ServedDesk, user: string, runId: string): Promise<LoopEvent[]> {
  const response = await ask(desk, user, {}, `/runs/${runId}/resume`);
  expect([response.status, response.headers.get('content-type')]).toEqual([
    200,
    'text/event-stream',
  ]);
  return eventsIn(await response.text());
}

async function refused(desk: ServedDesk, user: string, runId: string): Promise<[number, string]> {
  const response = await ask(desk, user, {}, `/runs/${runId}/resume`);
  return [response.status, ((await response.json()) as { code: string }).code];
}

describe('a receipt that support wants to mail', () => {
  it('waits for the manager, goes out once she says yes, and is told to who asked', async () => {
    const { desk, events, runId, approvalId, mailer } = await waiting();
    expect(mailer.mails).toEqual([]);
    expect(await decided(desk, 'mia', approvalId)).toEqual([200, 'approve']);
    expect(mailer.mails).toEqual([]);
    const more = await resumed(desk, 'alice', runId);
    expect(mailer.mails).toHaveLength(1);
    expect(ofType(more, 'approval-decision')).toMatchObject([
      { decidedBy: 'mia', decision: { decision: 'approve' } },
    ]);
    expect(more.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop', text: 'Sent.' });
    expect([...events, ...more].map(({ sequence }) => sequence)).toEqual(
      [...events, ...more].map((_, index) => index + 1),
    );
  });

  it('stays where it is once she says no, and the model reads why', async () => {
    const model = new ScriptedModel([SEND, text('She says no.')]);
    const desk = await serve({ model });
    const [asked] = ofType(
      await eventsOf(desk, 'alice', 'Send the receipt of o-1021'),
      'approval-request',
    );
    await decided(desk, 'mia', asked?.approval.approvalId ?? '', {
      decision: 'deny',
      reason: 'It went out by post.',
    });
    const more = await resumed(desk, 'alice', asked?.runId ?? '');
    expect(ofType(more, 'tool-result')[0]?.record).toMatchObject({
      status: 'denied',
      error: { code: 'approval_denied' },
    });
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain('It went out by post.');
    expect(desk.app.get(OutboxMailer).mails).toEqual([]);
  });

  it('is shown to both of them, by list and by id', async () => {
    const { desk, approvalId } = await waiting();
    for (const user of ['alice', 'mia']) {
      const body = await listed(desk, user);
      expect(body).toMatchObject([
        { approvalId, declaredId: 'orders__sendReceipt', args: { orderId: 'o-1021' } },
      ]);
      expect((await got(desk, user, `/approvals/${approvalId}`)).body).toEqual(body[0]);
    }
    await decided(desk, 'mia', approvalId, { decision: 'deny', reason: 'No.' });
    expect(await listed(desk, 'mia')).toEqual([]);
    expect((await got(desk, 'alice', `/approvals/${approvalId}`)).body).toMatchObject({
      answer: { decision: 'deny', reason: 'No.', decidedBy: 'mia' },
    });
  });

  it('waits again for who resumes before anybody decided', async () => {
    const { desk, runId } = await waiting();
    const more = await resumed(desk, 'alice', runId);
    expectRunEndsOnce(more.map((event, index) => ({ ...event, sequence: index + 1 })));
    expect(more.at(-1)).toMatchObject({ finishReason: 'waiting' });
    expect(await listed(desk, 'mia')).toHaveLength(1);
  });

  it('answers as one JSON result, too', async () => {
    const output = { answer: 'It is on its way.', sources: ['o-1021'] };
    const desk = await serve({ model: new ScriptedModel([SEND, text(JSON.stringify(output))]) });
    const first = await ask(desk, 'alice', { message: 'Send it' }, '/chat/answer');
    const { runId, finishReason } = (await first.json()) as { runId: string; finishReason: string };
    expect([first.status, finishReason]).toEqual([200, 'waiting']);
    const [asked] = await listed(desk, 'mia');
    await decided(desk, 'mia', asked?.approvalId ?? '');
    const answer = await ask(desk, 'alice', {}, `/runs/${runId}/resume/answer`);
    expect([answer.status, await answer.json()]).toMatchObject([
      200,
      { runId, finishReason: 'stop', output },
    ]);
  });
});

describe('invariant 12: a forged approval', () => {
  it.each([
    ['of another tenant', 'bob', 404, 'not_found'],
    ['of the one who asked', 'alice', 403, 'not_permitted'],
  ])('invariant 12: %s changes nothing', async (_whose, user, status, code) => {
    const { desk, runId, approvalId, mailer } = await waiting();
    expect(await decided(desk, user, approvalId)).toEqual([status, code]);
    expect((await resumed(desk, 'alice', runId)).at(-1)).toMatchObject({ finishReason: 'waiting' });
    expect(mailer.mails).toEqual([]);
  });

  it('invariant 12: is not even seen by the other tenant', async () => {
    const { desk, approvalId, runId } = await waiting();
    expect(await listed(desk, 'bob')).toEqual([]);
    const answers = await Promise.all(
      [approvalId, runId, 'x'].map((id) => got(desk, 'bob', `/approvals/${id}`)),
    );
    const none = {
      status: 404,
      body: { code: 'not_found', message: 'There is no such approval.' },
    };
    expect(answers).toEqual([none, none, none]);
  });

  it('invariant 12: is not found by a manager of another tenant, while its own user sees it', async () => {
    const desk = await serve({
      model: new ScriptedModel([calls(call('orders__sendReceipt', { orderId: 'o-1004' }))]),
    });
    const [asked] = ofType(
      await eventsOf(desk, 'bob', 'Send the receipt of o-1004'),
      'approval-request',
    );
    expect(await decided(desk, 'mia', asked?.approval.approvalId ?? '')).toEqual([
      404,
      'not_found',
    ]);
    expect(await listed(desk, 'mia')).toEqual([]);
    expect(await listed(desk, 'bob')).toEqual([asked?.approval]);
  });

  it('invariant 12: is not found under another id', async () => {
    const { desk, runId, mailer } = await waiting();
    for (const id of ['00000000-0000-4000-8000-000000000000', runId, '__proto__', '%2e%2e'])
      expect((await decided(desk, 'mia', id))[0]).toBe(404);
    expect(mailer.mails).toEqual([]);
  });

  it('invariant 12: approves the call the server holds, whatever arguments it brings', async () => {
    const { desk, runId, approvalId, mailer } = await waiting();
    const forged = {
      decision: 'approve',
      approvalId: 'other',
      args: { orderId: 'o-1022' },
      remember: true,
      tenant: 'globex',
      decidedBy: 'bob',
      tool: 'catalog__update',
    };
    expect(await decided(desk, 'mia', approvalId, forged)).toEqual([200, 'approve']);
    await resumed(desk, 'alice', runId);
    expect(mailer.mails.map(({ subject }) => subject)).toEqual(['Receipt for order o-1021']);
  });

  it('invariant 12: is not replayed, in this run or another', async () => {
    const { desk, runId, approvalId, mailer } = await waiting([SEND, SEND, SEND]);
    await decided(desk, 'mia', approvalId);
    expect(await decided(desk, 'mia', approvalId)).toEqual([409, 'already_answered']);
    expect((await resumed(desk, 'alice', runId)).at(-1)).toMatchObject({ finishReason: 'waiting' });
    expect((await eventsOf(desk, 'alice', 'Again')).at(-1)).toMatchObject({
      finishReason: 'waiting',
    });
    expect(await decided(desk, 'mia', approvalId, { decision: 'deny' })).toEqual([
      409,
      'already_answered',
    ]);
    expect(mailer.mails).toHaveLength(1);
  });

  it('invariant 12: is worth nothing once it has expired', async () => {
    const { desk, runId, approvalId, mailer } = await waiting();
    const late = Date.now() + HOUR_MS;
    jest.spyOn(Date, 'now').mockReturnValue(late);
    expect(await decided(desk, 'mia', approvalId)).toEqual([409, 'expired']);
    expect(await listed(desk, 'mia')).toEqual([]);
    await resumed(desk, 'alice', runId);
    expect(mailer.mails).toEqual([]);
  });

  it('invariant 12: lets no call happen an hour later', async () => {
    const { desk, runId, approvalId, mailer } = await waiting();
    await decided(desk, 'mia', approvalId);
    const late = Date.now() + HOUR_MS;
    jest.spyOn(Date, 'now').mockReturnValue(late);
    const more = await resumed(desk, 'alice', runId);
    expect(ofType(more, 'tool-result')[0]?.record.error?.code).toBe('approval_denied');
    expect(mailer.mails).toEqual([]);
  });

  it.each([
    ['nothing', {}],
    ['another word', { decision: 'yes' }],
    ['a list', { decision: ['approve'] }],
    ['a number for a reason', { decision: 'approve', reason: 7 }],
    ['a long reason', { decision: 'deny', reason: 'x'.repeat(1001) }],
    ['half a text', '{'],
  ])('invariant 12: is no decision when it says %s', async (_what, body) => {
    const { desk, approvalId } = await waiting();
    expect(await decided(desk, 'mia', approvalId, body)).toEqual([400, 'bad_request']);
    expect(await listed(desk, 'mia')).toHaveLength(1);
  });
});

describe('a run that waits', () => {
  it('is resumed by its own actor alone, and other runs that wait are not listed', async () => {
    const { desk, runId, approvalId, mailer } = await waiting();
    await decided(desk, 'mia', approvalId);
    for (const user of ['bob', 'mia'])
      expect(await refused(desk, user, runId)).toEqual([404, 'unknown_run']);
    expect(await refused(desk, 'alice', 'made-up')).toEqual([404, 'unknown_run']);
    expect(mailer.mails).toEqual([]);
  });

  it('is resumed by one of six who ask at once, and the others are told so in the place of a stream', async () => {
    const { desk, runId, approvalId, mailer } = await waiting();
    await decided(desk, 'mia', approvalId);
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => ask(desk, 'alice', {}, `/runs/${runId}/resume`)),
    );
    const bodies = await Promise.all(answers.map((answer) => answer.text()));
    const won = bodies.filter((_, index) => answers[index]?.status === 200);
    expect(won.map((body) => eventsIn(body).at(-1))).toMatchObject([
      { type: 'run-end', finishReason: 'stop' },
    ]);
    const lost = bodies.filter((_, index) => answers[index]?.status !== 200);
    expect(answers.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
      200, 404, 404, 404, 404, 404,
    ]);
    expect(lost.map((body) => (JSON.parse(body) as { code: string }).code)).toEqual(
      Array(5).fill('unknown_run'),
    );
    expect(mailer.mails).toHaveLength(1);
  });

  it('is gone once it has ended', async () => {
    const { desk, runId, approvalId } = await waiting();
    await decided(desk, 'mia', approvalId);
    await resumed(desk, 'alice', runId);
    expect(await refused(desk, 'alice', runId)).toEqual([404, 'unknown_run']);
  });
});

describe('what is told of an approval', () => {
  it('holds no address, no hash and no other secret', async () => {
    const { desk, events, runId, approvalId } = await waiting();
    const shown = [
      await got(desk, 'mia', '/approvals'),
      await got(desk, 'mia', `/approvals/${approvalId}`),
    ];
    const answer = await (
      await ask(desk, 'mia', { decision: 'approve' }, `/approvals/${approvalId}`)
    ).text();
    const more = await resumed(desk, 'alice', runId);
    expect(JSON.stringify([events, shown, answer, more])).not.toMatch(
      /john\.smith|@example|argsHash|binding|auditKey|stack/,
    );
  });

  it('is in the audit of its tenant, and in no other', async () => {
    const { desk, runId, approvalId } = await waiting();
    await decided(desk, 'mia', approvalId);
    await resumed(desk, 'alice', runId);
    const trail = desk.app.get(AuditTrail);
    const [own, other] = await Promise.all(
      ['acme', 'globex'].map((tenant) => linesOf(trail.exportLines(tenant))),
    );
    expect(own?.map(({ kind }) => kind)).toEqual([
      'decision',
      'approval-request',
      'approval-decision',
      'outcome',
    ]);
    expect(own?.find(({ kind }) => kind === 'approval-decision')).toMatchObject({
      actorId: 'alice',
      decidedBy: 'mia',
    });
    expect(other).toEqual([]);
  });
});

async function linesOf(lines: AsyncIterable<string>): Promise<Record<string, unknown>[]> {
  const entries: Record<string, unknown>[] = [];
  for await (const line of lines) entries.push(JSON.parse(line) as Record<string, unknown>);
  return entries;
}
