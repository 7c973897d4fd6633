import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { LanguageModel } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';
import type { RunView } from '@toolloop/core/runs';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { createServerDatabase, describePostgres } from '../../libs/durable/test/databases.js';
import {
  ask,
  close,
  closeDesks,
  eventsIn,
  headersOf,
  serve,
  type ServedDesk,
} from './served-desk.js';

const AUDIT_KEY = 'k'.repeat(32);

/**
 * Takes its time, so that no process is done with all runs before the other has looked; and counts.
 */
class CountingModel extends LanguageModel {
  override readonly provider = 'test';
  override readonly modelId = 'counting';
  answers = 0;

  override async *stream(_request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelEvent> {
    this.answers += 1;
    await new Promise((resolve) => setTimeout(resolve, 200));
    yield* new ScriptedModel([text('Done.')]).stream(_request, signal);
  }
}

async function get<Body>(from: ServedDesk, user: string, path: string): Promise<Body> {
  return (await (await fetch(from.url + path, { headers: headersOf(user) })).json()) as Body;
}

async function start(at: ServedDesk, message: string): Promise<string> {
  return ((await (await ask(at, 'alice', { message }, '/runs')).json()) as RunView).runId;
}

async function until(at: ServedDesk, runId: string, status: string): Promise<RunView> {
  for (;;) {
    const run = await get<RunView>(at, 'alice', `/runs/${runId}`);
    if (run.status === status) return run;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

describePostgres('two desks on one PostgreSQL', () => {
  let url: string;
  let drop: () => Promise<void>;

  beforeAll(async () => {
    ({ url, drop } = await createServerDatabase());
  });
  afterAll(async () => {
    await closeDesks();
    await drop();
  });

  const desk = (model: LanguageModel): Promise<ServedDesk> =>
    serve({ model, settings: { databaseUrl: url, auditKey: AUDIT_KEY } });

  it('share the work', async () => {
    const models = [new CountingModel(), new CountingModel()];
    const [one, other] = await Promise.all(models.map(desk));
    if (!one || !other) throw new Error('There are two.');
    const runs = await Promise.all(
      Array.from({ length: 40 }, (_, index) => start(one, `Hello ${index}`)),
    );
    const ended = await Promise.all(runs.map((runId) => until(other, runId, 'ended')));
    expect(ended.map(({ finishReason }) => finishReason)).toEqual(runs.map(() => 'stop'));
    const answers = models.map((model) => model.answers);
    expect(answers[0] ?? 0).toBeGreaterThan(0);
    expect(answers[1] ?? 0).toBeGreaterThan(0);
    expect((answers[0] ?? 0) + (answers[1] ?? 0)).toBe(40);
    await Promise.all([close(one), close(other)]);
  });

  it('they continue each other’s runs: begun in one that is gone, approved and watched in the other', async () => {
    const one = await desk(
      new ScriptedModel([calls(call('refunds__refundOrder', { orderId: 'o-1021' }))]),
    );
    const runId = await start(one, 'Refund o-1021');
    const { lastSequence } = await until(one, runId, 'waiting');
    const other = await desk(new ScriptedModel([text('It is on its way.')]));
    await close(one);
    const [asked] = await get<{ approvalId: string }[]>(other, 'mia', '/approvals');
    const watched = fetch(`${other.url}/runs/${runId}/events?after=${lastSequence}`, {
      headers: headersOf('alice'),
    });
    expect(
      (await ask(other, 'mia', { decision: 'approve' }, `/approvals/${asked?.approvalId}`)).status,
    ).toBe(200);
    const events = eventsIn(await (await watched).text());
    expect(events.at(-1)).toMatchObject({
      type: 'run-end',
      finishReason: 'stop',
      text: 'It is on its way.',
    });
    expect(events[0]?.sequence).toBe(lastSequence + 1);
  });
});
