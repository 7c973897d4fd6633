import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { call, calls, hangs, ScriptedModel, text } from '@toolloop/testing';
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

const QUESTION = "What is John Smith's average spend?";

afterAll(closeDesks);

describe('the order desk, answered by the offline model', () => {
  let desk: ServedDesk;
  beforeAll(async () => {
    desk = await serve();
  });

  it('answers alice with the sum, by a tool that appeared with the customer', async () => {
    const events = await eventsOf(desk, 'alice', QUESTION);
    const [injected] = ofType(events, 'tools-injected');
    expect(injected).toMatchObject({ provider: 'Customer', instanceId: 'c-123' });
    expect(injected?.tools).toContain('customer_c-123_getAverageSpend');
    expect(events.at(-1)).toMatchObject({
      type: 'run-end',
      finishReason: 'stop',
      text: expect.stringContaining('472.19'),
    });
  });

  it('finds no such customer for bob, and nothing of the other tenant', async () => {
    const stream = await (await ask(desk, 'bob', { message: QUESTION })).text();
    const events = eventsIn(stream);
    expect(ofType(events, 'tools-injected')).toEqual([]);
    expect(ofType(events, 'tool-result')[0]?.record).toMatchObject({
      declaredId: 'crm__searchCustomers',
      status: 'succeeded',
      result: [],
    });
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop' });
    expect(stream).not.toMatch(/472\.19|Dublin|example\.com|c-123|Laura/);
  });

  it('shows the browser no address that only the model may see', async () => {
    const stream = await (await ask(desk, 'alice', { message: QUESTION })).text();
    expect(stream).toContain('Dublin');
    expect(stream).not.toContain('john.smith@example.com');
  });

  it('numbers its events and ends with one run-end', async () => {
    const events = await eventsOf(desk, 'alice', QUESTION);
    expect(events.map(({ sequence }) => sequence)).toEqual(
      events.map((_event, index) => index + 1),
    );
    expect(events.filter(({ type }) => type === 'run-end')).toHaveLength(1);
  });

  it('streams as text/event-stream with 200', async () => {
    const response = await ask(desk, 'alice', { message: QUESTION });
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/event-stream',
    ]);
    await response.text();
  });
});

describe('a structured answer', () => {
  it('is one JSON result', async () => {
    const output = { answer: 'John Smith spends 472.19 EUR a month.', sources: ['c-123'] };
    const model = new ScriptedModel([text(JSON.stringify(output))]);
    const desk = await serve({ model });
    const response = await ask(desk, 'alice', { message: QUESTION }, '/chat/answer');
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ finishReason: 'stop', output, steps: 1 });
  });

  it('is streamed as an object that grows, where the question asks for one', async () => {
    const output = {
      answer: 'John Smith spends 472.19 EUR a month, which is more than last year.',
      sources: ['c-123', 'o-1021'],
    };
    const desk = await serve({ model: new ScriptedModel([text(JSON.stringify(output))]) });
    const response = await ask(desk, 'alice', { message: QUESTION, structured: true });
    const events = await response.text();
    const grown = [...events.matchAll(/^data: (.*"output-delta".*)$/gm)].map(
      ([, data = '']) => (JSON.parse(data) as { output: unknown }).output,
    );
    expect(grown.length).toBeGreaterThan(1);
    expect([grown[0], grown.at(-1)]).toEqual([{ answer: expect.stringMatching(/^John/) }, output]);
    expect((await ask(desk, 'alice', { message: QUESTION, structured: 'yes' })).status).toBe(400);
  });

  it('tells the run and no more when the model fails', async () => {
    const model = new ScriptedModel([]);
    const desk = await serve({ model });
    const response = await ask(desk, 'alice', { message: QUESTION }, '/chat/answer');
    expect(response.status).toBe(502);
    const body = (await response.json()) as Record<string, unknown>;
    expect(body).toMatchObject({
      code: 'model_error',
      message: expect.any(String),
      runId: expect.any(String),
    });
    expect(JSON.stringify(body)).not.toMatch(/script|stack|\.ts/i);
  });
});

describe('a conversation', () => {
  it('continues where it ended, for its own user', async () => {
    const model = new ScriptedModel([text('Hello.'), text('Again.'), text('Who?')]);
    const desk = await serve({ model });
    for (const user of ['alice', 'alice', 'mia'])
      await (await ask(desk, user, { message: `Hi from ${user}`, conversationId: 'one' })).text();
    const said = model.requests.map(({ messages }) =>
      messages.filter(({ role }) => role !== 'system'),
    );
    expect(said.map(({ length }) => length)).toEqual([1, 3, 1]);
  });
});

describe('a client that goes away', () => {
  it('aborts the run of the answer it waits for', async () => {
    const model = new ScriptedModel([hangs('I am thinking')]);
    const desk = await serve({ model });
    const leaving = new AbortController();
    const body = JSON.stringify({ message: QUESTION });
    const asked = fetch(`${desk.url}/chat/answer`, {
      method: 'POST',
      headers: headersOf('alice'),
      body,
      signal: leaving.signal,
    }).catch(() => undefined);
    await until(() => model.openStreams === 1);
    leaving.abort();
    await asked;
    await until(() => model.openStreams === 0);
    expect(model.requests[0]?.signal.aborted).toBe(true);
  });
});

describe('a tool error', () => {
  it('reaches the model in the words that were written for it', async () => {
    const model = new ScriptedModel([
      calls(call('orders__findOrder', { orderId: 'o-1021' })),
      calls(call('order_o-1021_cancel')),
      text('It has been shipped.'),
    ]);
    const desk = await serve({ model });
    const events = await eventsOf(desk, 'mia', 'Cancel order o-1021');
    const [, cancelled] = ofType(events, 'tool-result');
    const safeMessage =
      'Order o-1021 has been shipped and cannot be cancelled. Offer a return instead.';
    expect(cancelled?.record).toMatchObject({
      status: 'failed',
      error: { code: 'execution_failed', safeMessage },
    });
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain(safeMessage);
    model.assertComplete();
  });
});

async function until(holds: () => boolean): Promise<void> {
  const deadline = Date.now() + 240_000;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error('It did not happen.');
    await new Promise((resolve) => {
      setTimeout(resolve, 5);
    });
  }
}
