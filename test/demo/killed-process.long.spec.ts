import { once } from 'node:events';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { DirectiveView } from '@toolloop/core/directives';
import type { RunView } from '@toolloop/core/runs';
import { Client } from 'pg';
import { createServerDatabase, describePostgres } from '../../libs/durable/test/databases.js';
import { start, untilOpen, type StartedDesk } from './desk-process.js';
import { eventsIn, headersOf, ofType } from './served-desk.js';

const started: StartedDesk[] = [];

async function desk(
  DATABASE_URL: string,
): Promise<{ readonly url: string; readonly kill: () => Promise<void> }> {
  const one = start('0', { DATABASE_URL, AUDIT_KEY: 'k'.repeat(32) });
  started.push(one);
  const kill = async (): Promise<void> => {
    const gone = once(one.process, 'exit');
    one.process.kill('SIGKILL');
    await gone;
  };
  return { url: await untilOpen(one), kill };
}

async function got<Body>(url: string, user: string): Promise<Body> {
  return (await (await fetch(url, { headers: headersOf(user) })).json()) as Body;
}

function posted(url: string, user: string, body: object, key?: string): Promise<Response> {
  const headers = { ...headersOf(user), ...(key !== undefined && { 'idempotency-key': key }) };
  return fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
}

const ask = (url: string) =>
  posted(`${url}/runs`, 'alice', { message: 'Refund order o-1021' }, 'refund-1');

async function until<Body>(
  look: () => Promise<Body>,
  holds: (seen: Body) => boolean,
): Promise<Body> {
  for (
    const end = Date.now() + 240_000;
    ;
    await new Promise((resolve) => setTimeout(resolve, 50))
  ) {
    const seen = await look();
    if (holds(seen)) return seen;
    if (Date.now() > end)
      throw new Error(
        `In vain: ${JSON.stringify(seen)}\n${started.map(({ output }) => output()).join('\n')}`,
      );
  }
}

describePostgres('two processes on one PostgreSQL', () => {
  let server: Awaited<ReturnType<typeof createServerDatabase>>;

  beforeAll(async () => {
    server = await createServerDatabase();
  });
  afterAll(async () => {
    for (const { process: child } of started)
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await server.drop();
  });

  it('invariant 13: pay once what was asked for in one that was killed, and approved in the other', async () => {
    const first = await desk(server.url);
    const { runId } = (await (await ask(first.url)).json()) as RunView;
    const runAt = (url: string) => () => got<RunView>(`${url}/runs/${runId}`, 'alice');
    await until(runAt(first.url), ({ status }) => status === 'waiting');
    const second = await desk(server.url);
    await first.kill();

    // whoever has heard nothing asks again
    expect(((await (await ask(second.url)).json()) as RunView).runId).toBe(runId);
    const asked = await got<{ approvalId: string }[]>(`${second.url}/approvals`, 'mia');
    expect(asked).toHaveLength(1);
    const yes = () =>
      posted(`${second.url}/approvals/${asked[0]?.approvalId}`, 'mia', { decision: 'approve' });
    const statuses = (await Promise.all([yes(), yes()])).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([200, 409]));
    expect(await until(runAt(second.url), ({ status }) => status === 'ended')).toMatchObject({
      finishReason: 'stop',
    });

    const directives = () => got<DirectiveView[]>(`${second.url}/directives`, 'mia');
    const paid = await until(directives, (all) => all.some(({ status }) => status === 'succeeded'));
    expect(paid).toMatchObject([
      {
        status: 'succeeded',
        attempts: 1,
        requestedBy: 'alice',
        subject: 'o-1021',
        result: { paymentId: 'pay-1' },
      },
    ]);
    expect(await callsOf('refunds__refundOrder', server.url)).toBe(1);
  });

  it.each([
    [
      'the result of a client',
      'Scan the barcode of the parcel',
      'client',
      { result: { barcode: '4006381333931' } },
      { result: {} },
    ],
    [
      'the answer to a question',
      'Quote the postage of the parcel',
      'question',
      { answer: 2_500 },
      { answer: 'heavy' },
    ],
  ])(
    'invariant 13: take %s once, though the process that asked for it was killed, and continue its run',
    async (_what, message, kind, given, wrong) => {
      const first = await desk(server.url);
      const begun = await posted(`${first.url}/runs`, 'alice', { message }, kind);
      const { runId } = (await begun.json()) as RunView;
      const runAt = (url: string) => () => got<RunView>(`${url}/runs/${runId}`, 'alice');
      expect(await until(runAt(first.url), ({ status }) => status === 'waiting')).toMatchObject({
        waitingFor: kind,
      });
      const second = await desk(server.url);
      await first.kill();

      const [request] = ofType(
        eventsIn(
          await streamed(`${second.url}/runs/${runId}/events`, (seen) =>
            seen.includes('"run-end"'),
          ),
        ),
        'pending-request',
      );
      const asked = request && request.kind !== 'rehearsal' ? request.request : { toolCallId: '' };
      const named =
        'questionId' in asked ? { questionId: asked.questionId } : { toolCallId: asked.toolCallId };
      const reply = { ...named, ...given };
      const give = (user: string, body: object) =>
        posted(`${second.url}/runs/${runId}/answer`, user, body);
      for (const user of ['mia', 'bob']) expect((await give(user, reply)).status).toBe(404);
      expect((await give('alice', { ...named, ...wrong })).status).toBe(400);
      const statuses = (await Promise.all([give('alice', reply), give('alice', reply)])).map(
        ({ status }) => status,
      );
      expect(new Set(statuses)).toEqual(new Set([200, 409]));
      expect(await until(runAt(second.url), ({ status }) => status === 'ended')).toMatchObject({
        finishReason: 'stop',
      });
      const events = eventsIn(
        await (
          await fetch(`${second.url}/runs/${runId}/events`, { headers: headersOf('alice') })
        ).text(),
      );
      expect(ofType(events, 'pending-answer')).toHaveLength(1);
      expect(ofType(events, 'tool-result')).toMatchObject([{ record: { status: 'succeeded' } }]);
    },
    180_000,
  );

  it('invariant 13: take a withdrawal once, though the process that asked was killed, show it to the conversation once, and make no call', async () => {
    const first = await desk(server.url);
    const message = 'Cancel order o-1024';
    const conversationId = 'withdrawn';
    const { runId } = (await (
      await posted(`${first.url}/runs`, 'alice', { message, conversationId }, 'withdrawn-1')
    ).json()) as RunView;
    const runAt = (url: string) => () => got<RunView>(`${url}/runs/${runId}`, 'alice');
    await until(runAt(first.url), ({ status }) => status === 'waiting');
    const second = await desk(server.url);
    await first.kill();

    const [asked] = await got<{ approvalId: string; runId: string }[]>(
      `${second.url}/approvals`,
      'mia',
    );
    expect(asked?.runId).toBe(runId);
    const withdraw = (user: string) =>
      posted(`${second.url}/runs/${runId}/answer`, user, {
        approvalId: asked?.approvalId,
        decision: 'withdraw',
      });
    expect([(await withdraw('bob')).status, (await withdraw('mia')).status]).toEqual([404, 403]);
    // The conversation is free: the run that waits has no turn in it, and its process is gone.
    const next = await posted(
      `${second.url}/runs`,
      'alice',
      { message: 'Quote the postage of the parcel', conversationId },
      'withdrawn-2',
    );
    const { runId: nextId } = (await next.json()) as RunView;
    await until(
      () => got<RunView>(`${second.url}/runs/${nextId}`, 'alice'),
      ({ status }) => status === 'waiting',
    );
    const statuses = (await Promise.all([withdraw('alice'), withdraw('alice')])).map(
      ({ status }) => status,
    );
    expect(new Set(statuses)).toEqual(new Set([200, 409]));
    expect(
      (await posted(`${second.url}/approvals/${asked?.approvalId}`, 'mia', { decision: 'approve' }))
        .status,
    ).toBe(409);
    expect(await until(runAt(second.url), ({ status }) => status === 'ended')).toMatchObject({
      finishReason: 'stop',
    });
    const { entries } = await got<{ entries: { text: string }[] }>(
      `${second.url}/conversations/${conversationId}`,
      'alice',
    );
    expect(entries.filter(({ text }) => text === message)).toHaveLength(1);
    expect(await callsOf('order_*_cancel', server.url)).toBe(0);
  });
});

/** The text of a stream that does not end, read until it has this. */
async function streamed(url: string, has: (seen: string) => boolean): Promise<string> {
  const stop = new AbortController();
  const { body } = await fetch(url, { headers: headersOf('alice'), signal: stop.signal });
  let seen = '';
  for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    seen += chunk;
    if (has(seen)) break;
  }
  stop.abort();
  return seen.slice(0, seen.lastIndexOf('\n'));
}

/** How often a call of a tool was begun, by the journal of both. */
async function callsOf(declaredId: string, connectionString: string): Promise<number> {
  const client = new Client({ connectionString });
  await client.connect();
  const { rows } = await client.query<{ calls: number }>(
    'select count(*)::int as calls from toolloop.calls where declared_id = $1',
    [declaredId],
  );
  await client.end();
  return rows[0]?.calls ?? 0;
}
