import { afterAll, describe, expect, it } from '@jest/globals';
import type { LoopEvent } from '@toolloop/core';
import { AuditTrail } from '@toolloop/core/audit';
import type { DirectiveView } from '@toolloop/core/directives';
import { call, calls, ScriptedModel, text, type ScriptedTurn } from '@toolloop/testing';
import { LedgerPayments } from '../../src/refunds/payments.js';
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

const refund = (orderId = 'o-1021') => calls(call('refunds__refundOrder', { orderId }));
const SCRIPT: readonly ScriptedTurn[] = [refund(), text('It is on its way.')];

interface Answered<Body> {
  readonly status: number;
  readonly body: Body;
}

async function got<Body = { code: string }>(
  desk: ServedDesk,
  user: string,
  path: string,
): Promise<Answered<Body>> {
  const response = await fetch(desk.url + path, { headers: headersOf(user) });
  return { status: response.status, body: (await response.json()) as Body };
}

async function posted(
  desk: ServedDesk,
  user: string,
  path: string,
  body: unknown = {},
): Promise<[number, string]> {
  const response = await ask(desk, user, body, path);
  const said = (await response.json()) as { code?: string; status?: string };
  return [response.status, said.code ?? said.status ?? ''];
}

async function directivesOf(desk: ServedDesk, user: string, query = ''): Promise<DirectiveView[]> {
  return (await got<DirectiveView[]>(desk, user, `/directives${query}`)).body;
}

/** The user's newest directive, once it has the status. */
async function until(desk: ServedDesk, user: string, status: string): Promise<DirectiveView> {
  for (let looks = 0; looks < 200; looks += 1) {
    const [one] = await directivesOf(desk, user);
    if (one?.status === status) return one;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(
    `No directive of ${user} is ${status}: ${JSON.stringify(await directivesOf(desk, user))}`,
  );
}

/** Mia's yes to what a run waits for, and the rest of the run. */
async function approved(
  desk: ServedDesk,
  user: string,
  events: readonly LoopEvent[],
): Promise<LoopEvent[]> {
  const [asked] = ofType(events, 'approval-request');
  await ask(desk, 'mia', { decision: 'approve' }, `/approvals/${asked?.approval.approvalId}`);
  const response = await ask(desk, user, {}, `/runs/${asked?.runId}/resume`);
  return eventsIn(await response.text());
}

const payouts = (desk: ServedDesk) => desk.app.get(LedgerPayments).payouts;

describe('a refund that support wants', () => {
  it('waits for the manager, is asked for, and is paid once', async () => {
    const desk = await serve({ model: new ScriptedModel(SCRIPT) });
    const events = await eventsOf(desk, 'alice', 'Refund o-1021');
    expect([events.at(-1), await directivesOf(desk, 'alice')]).toMatchObject([
      { finishReason: 'waiting' },
      [],
    ]);
    const more = await approved(desk, 'alice', events);
    const done = await until(desk, 'alice', 'succeeded');
    expect(ofType(more, 'directive-request')).toMatchObject([
      { directive: { directiveId: done.directiveId, subject: 'o-1021' } },
    ]);
    expect(done).toMatchObject({
      requestedBy: 'alice',
      result: { paymentId: 'pay-1', orderId: 'o-1021', amount: '446.75 EUR' },
    });
    expect(payouts(desk)).toMatchObject([{ tenant: 'acme', orderId: 'o-1021' }]);
  });

  it('is not asked for once the manager says no', async () => {
    const desk = await serve({ model: new ScriptedModel(SCRIPT) });
    const [asked] = ofType(await eventsOf(desk, 'alice', 'Refund o-1021'), 'approval-request');
    await ask(
      desk,
      'mia',
      { decision: 'deny', reason: 'It was delivered.' },
      `/approvals/${asked?.approval.approvalId}`,
    );
    await (await ask(desk, 'alice', {}, `/runs/${asked?.runId}/resume`)).text();
    expect([await directivesOf(desk, 'mia'), payouts(desk)]).toEqual([[], []]);
  });

  it('is not requested for an unknown order, since its effect cannot be shown', async () => {
    const desk = await serve({
      model: new ScriptedModel([
        calls(call('refunds__refundOrder', { orderId: 'o-1' })),
        text('Done.'),
      ]),
    });
    const events = await eventsOf(desk, 'mia', 'Refund o-1');
    expect(ofType(events, 'tool-result')[0]?.record).toMatchObject({
      status: 'failed',
      error: { code: 'execution_failed' },
    });
    expect(await directivesOf(desk, 'mia')).toEqual([]);
  });
});

describe('invariant 13: the same refund', () => {
  it('invariant 13: is the same directive and one payment when it is requested again, also by another user', async () => {
    const desk = await serve({ model: new ScriptedModel([...SCRIPT, ...SCRIPT, ...SCRIPT]) });
    await approved(desk, 'alice', await eventsOf(desk, 'alice', 'Refund o-1021'));
    const first = await until(desk, 'mia', 'succeeded');
    const again = ofType(await eventsOf(desk, 'mia', 'Refund o-1021'), 'directive-request');
    expect(again).toMatchObject([
      { directive: { directiveId: first.directiveId, status: 'succeeded' } },
    ]);
    expect([(await directivesOf(desk, 'mia')).length, payouts(desk).length]).toEqual([1, 1]);
  });

  it('invariant 13: is another one for the other tenant, though the order has the same number', async () => {
    const desk = await serve({
      model: new ScriptedModel([refund('o-1004'), text('1'), refund('o-1004')]),
    });
    await eventsOf(desk, 'mia', 'Refund o-1004');
    await until(desk, 'mia', 'succeeded');
    const events = await eventsOf(desk, 'bob', 'Refund o-1004');
    expect(events.at(-1)).toMatchObject({ finishReason: 'waiting' }); // globex has no manager
    expect([await directivesOf(desk, 'bob'), payouts(desk).map(({ tenant }) => tenant)]).toEqual([
      [],
      ['acme'],
    ]);
  });
});

/** A refund of mia's that was paid. */
async function paid(): Promise<{ desk: ServedDesk; directiveId: string }> {
  const desk = await serve({ model: new ScriptedModel([...SCRIPT, ...SCRIPT]) });
  await eventsOf(desk, 'mia', 'Refund o-1021');
  const { directiveId } = await until(desk, 'mia', 'succeeded');
  return { desk, directiveId };
}

describe('a directive', () => {
  it('is not found in another tenant, whatever the request', async () => {
    const { desk, directiveId } = await paid();
    const none = {
      status: 404,
      body: { code: 'not_found', message: 'There is no such directive.' },
    };
    for (const id of [directiveId, 'dir_made-up', '__proto__']) {
      expect(await got(desk, 'bob', `/directives/${id}`)).toEqual(none);
      expect(await posted(desk, 'bob', `/directives/${id}/cancel`)).toEqual([404, 'not_found']);
      expect(await posted(desk, 'bob', `/directives/${id}/redrive`, { tookPlace: false })).toEqual([
        404,
        'not_found',
      ]);
    }
    expect(await directivesOf(desk, 'bob')).toEqual([]);
    expect(payouts(desk)).toHaveLength(1);
  });

  it('is hidden from support when it is a manager’s: support sees its own', async () => {
    const { desk, directiveId } = await paid();
    expect(await directivesOf(desk, 'alice')).toEqual([]);
    expect((await got(desk, 'alice', `/directives/${directiveId}`)).status).toBe(404);
    expect(await posted(desk, 'alice', `/directives/${directiveId}/cancel`)).toEqual([
      404,
      'not_found',
    ]);
  });

  it('is not performed again once it was performed', async () => {
    const { desk, directiveId } = await paid();
    expect(
      await posted(desk, 'mia', `/directives/${directiveId}/redrive`, {
        tookPlace: false,
        tenant: 'globex',
      }),
    ).toEqual([409, 'not_possible']);
    expect(payouts(desk)).toHaveLength(1);
  });

  it('is found by status and subject, and shows no key and nothing it is bound to', async () => {
    const { desk, directiveId } = await paid();
    const ids = async (query: string) =>
      (await directivesOf(desk, 'mia', query)).map((one) => one.directiveId);
    expect([
      await ids('?status=succeeded'),
      await ids('?status=dead'),
      await ids('?subject=o-1021'),
    ]).toEqual([[directiveId], [], [directiveId]]);
    expect(await ids(`?after=${directiveId}`)).toEqual([]);
    expect((await got(desk, 'mia', '/directives?status=paid')).status).toBe(400);
    expect(JSON.stringify(await directivesOf(desk, 'mia'))).not.toMatch(
      /policies|"key"|epoch|outsideBits|authority/,
    );
  });

  it.each([{ tookPlace: 'yes' }, { tookPlace: 1 }, { tookPlace: null }])(
    'is not redriven by %j',
    async (body) => {
      const { desk, directiveId } = await paid();
      expect(await posted(desk, 'mia', `/directives/${directiveId}/redrive`, body)).toEqual([
        400,
        'bad_request',
      ]);
    },
  );

  it('is in the audit of its tenant from the request to its end, and in no other', async () => {
    const { desk } = await paid();
    const lines: Record<string, unknown>[][] = [];
    for (const tenant of ['acme', 'globex']) {
      const entries: Record<string, unknown>[] = [];
      for await (const line of desk.app.get(AuditTrail).exportLines(tenant))
        entries.push(JSON.parse(line) as Record<string, unknown>);
      lines.push(entries);
    }
    expect(lines[0]?.map(({ kind }) => kind)).toEqual([
      'decision',
      'directive-requested',
      'outcome',
      'directive-started',
      'decision',
      'outcome',
      'directive-succeeded',
    ]);
    expect(lines[1]).toEqual([]);
  });

  it('tells its status to the model of who may see it', async () => {
    const { directiveId } = await paid();
    const status = [
      calls(call('directives__status', { directive_id: directiveId })),
      text('Paid.'),
    ];
    const desk = await serve({ model: new ScriptedModel([...SCRIPT, ...status, ...status]) });
    await eventsOf(desk, 'mia', 'Refund o-1021');
    await until(desk, 'mia', 'succeeded');
    const shown = ofType(await eventsOf(desk, 'mia', 'And?'), 'tool-result')[0]?.record;
    expect(shown?.result).toMatchObject({ directive_id: directiveId, status: 'succeeded' });
    const hidden = ofType(await eventsOf(desk, 'bob', 'And?'), 'tool-result')[0]?.record;
    expect(hidden).toMatchObject({
      status: 'failed',
      error: { safeMessage: 'There is no such directive.' },
    });
  });
});
