import { afterAll, describe, expect, it } from '@jest/globals';
import type { LanguageModel } from '@toolloop/core';
import type { RunView } from '@toolloop/core/runs';
import { call, calls, ScriptedModel, text, type ScriptedTurn } from '@toolloop/testing';
import { OutboxMailer } from '../../src/orders/mailer.js';
import { closeDesks, eventsIn, headersOf, ofType, serve, type ServedDesk } from './served-desk.js';

afterAll(closeDesks);

const mail = calls(call('orders__sendReceipt', { orderId: 'o-1021' }));
const model = (...turns: readonly ScriptedTurn[]): LanguageModel => new ScriptedModel(turns);

/** What a client does that has not heard an answer: it says the same again, by the same name. */
function repeated(
  desk: ServedDesk,
  path: string,
  key: string,
  body: unknown = { message: 'Mail the receipt of o-1021' },
): Promise<Response> {
  const headers = { ...headersOf('mia'), 'idempotency-key': key };
  return fetch(desk.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
}

const runIn = async (answer: Promise<Response>): Promise<RunView> =>
  (await (await answer).json()) as RunView;

describe('a request with an Idempotency-Key', () => {
  it('starts one run at POST /runs, and is refused with another question by the same name', async () => {
    const desk = await serve({ model: model(text('Hello.'), text('Another.')) });
    const [one, again] = await Promise.all([
      runIn(repeated(desk, '/runs', 'k-1')),
      runIn(repeated(desk, '/runs', 'k-1')),
    ]);
    expect(again.runId).toBe(one.runId);
    expect((await runIn(repeated(desk, '/runs', 'k-2'))).runId).not.toBe(one.runId);
    const other = await repeated(desk, '/runs', 'k-1', { message: 'Something else' });
    expect([other.status, await other.json()]).toMatchObject([400, { code: 'invalid_request' }]);
  });

  it('starts one fork at POST /runs/:runId/fork', async () => {
    const desk = await serve({ model: model(text('Hello.'), text('Again.')) });
    const { runId } = await runIn(repeated(desk, '/runs', 'k'));
    await (await fetch(`${desk.url}/runs/${runId}/events`, { headers: headersOf('mia') })).text();
    const [one, again] = [
      await runIn(repeated(desk, `/runs/${runId}/fork`, 'f', { step: 0 })),
      await runIn(repeated(desk, `/runs/${runId}/fork`, 'f', { step: 0 })),
    ];
    expect([one.forkOf, again.runId]).toEqual([{ runId, step: 0 }, one.runId]);
  });

  it('has its effects once at POST /chat, and shows its durable run again', async () => {
    const desk = await serve({
      model: model(mail, text('Sent.'), mail, text('Sent.'), mail, text('Sent again.')),
    });
    for (let times = 0; times < 2; times += 1) {
      const events = eventsIn(await (await repeated(desk, '/chat', 'm-1')).text());
      expect(ofType(events, 'tool-result')).toMatchObject([{ record: { status: 'succeeded' } }]);
      expect(events[0]).toMatchObject({ type: 'run-start', requestId: 'm-1' });
    }
    expect(desk.app.get(OutboxMailer).mails).toHaveLength(1);
    const shown = await Promise.all(
      [1, 2].map(async () =>
        eventsIn(
          await (
            await repeated(desk, '/chat', 'm-2', { message: 'Mail it again', durable: true })
          ).text(),
        ),
      ),
    );
    expect(shown[0]?.at(-1)).toMatchObject({ finishReason: 'stop', text: 'Sent again.' });
    expect(shown[1]).toEqual(shown[0]);
    expect(desk.app.get(OutboxMailer).mails).toHaveLength(2);
  });

  it('has its effects once at POST /chat/answer', async () => {
    const answer = text(JSON.stringify({ answer: 'Sent.', sources: [] }));
    const desk = await serve({ model: model(mail, answer, mail, answer) });
    const statuses = [
      (await repeated(desk, '/chat/answer', 'a')).status,
      (await repeated(desk, '/chat/answer', 'a')).status,
    ];
    expect([statuses, desk.app.get(OutboxMailer).mails.length]).toEqual([[200, 200], 1]);
  });

  it.each(['', 'two words', 'x'.repeat(256)])('is refused with the key %j', async (key) => {
    const response = await repeated(await serve({ model: model() }), '/runs', key);
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { code: 'bad_request', message: expect.stringContaining('Idempotency-Key must be') },
    ]);
  });
});
