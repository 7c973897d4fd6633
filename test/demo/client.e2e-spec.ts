import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import {
  type Approval,
  type ListedTool,
  type Stop,
  ToolLoopClient,
  type ToolLoopHttpError,
} from '@toolloop/client';
import type { LoopEvent } from '@toolloop/core';
import { call, calls, hangs, ScriptedModel, text } from '@toolloop/testing';
import { type CuttingProxy, cutConnections } from '../../libs/client/test/cut-connections.js';
import { closeDesks, serve } from './served-desk.js';

const proxies: CuttingProxy[] = [];

afterEach(async () => {
  await Promise.all(proxies.splice(0).map((proxy) => proxy.close()));
});
afterAll(closeDesks);

function stopsFor(client: ToolLoopClient): Promise<readonly Stop[]> {
  return client.request('GET /policies/stops', {});
}

function clientOf(url: string, user = 'alice'): ToolLoopClient {
  return new ToolLoopClient({
    url,
    headers: () => ({ authorization: `Bearer demo-${user}` }),
    reconnect: { delayMs: 5 },
  });
}

async function through(url: string, ...cuts: readonly number[]): Promise<CuttingProxy> {
  const proxy = await cutConnections(url, cuts);
  proxies.push(proxy);
  return proxy;
}

async function all(events: AsyncIterable<LoopEvent>): Promise<LoopEvent[]> {
  const read: LoopEvent[] = [];
  for await (const event of events) read.push(event);
  return read;
}

const codes = (asked: Promise<unknown>): Promise<unknown> =>
  asked.catch(({ status, code }: ToolLoopHttpError) => [status, code]);
const sequencesOf = (events: readonly LoopEvent[]): number[] =>
  events.map(({ sequence }) => sequence);
const QUESTION = { message: "What is John Smith's average spend?" };
const REFUND = [
  calls(call('refunds__refundOrder', { orderId: 'o-1021' })),
  text('It is on its way.'),
];

describe('the client of a served application', () => {
  it('reads the events of a question to its end', async () => {
    const desk = await serve();
    const events = await all(clientOf(desk.url).ask(QUESTION));
    expect(events[0]?.type).toBe('run-start');
    expect(events.find(({ type }) => type === 'tools-injected')).toMatchObject({
      provider: 'Customer',
    });
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop' });
  });

  it('shows each event of a durable run once, however often the connection breaks in the middle', async () => {
    const desk = await serve();
    const proxy = await through(desk.url, 0, 700, 1500, 333);
    const events = await all(clientOf(proxy.url).ask(QUESTION, { durable: true }));
    expect(sequencesOf(events)).toEqual(events.map((_, index) => index + 1));
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop' });
    expect(proxy.requests.length).toBe(5);
    expect((await clientOf(desk.url).runs()).map(({ runId }) => runId)).toEqual([events[0]?.runId]);
  });

  it('tells where it has lost a run that cannot be read on', async () => {
    const desk = await serve();
    const proxy = await through(desk.url, 700);
    const lost = all(clientOf(proxy.url).ask(QUESTION));
    await expect(lost).rejects.toMatchObject({
      name: 'ConnectionLostError',
      lastSequence: expect.any(Number),
    });
    expect(proxy.requests).toEqual(['POST /chat']);
  });

  it('approves what a durable run waits for, and reads on behind the wait', async () => {
    const desk = await serve({ model: new ScriptedModel(REFUND) });
    const [alice, mia] = [clientOf(desk.url), clientOf(desk.url, 'mia')];
    const decided: Promise<Approval>[] = [];
    const events: LoopEvent[] = [];
    for await (const event of alice.ask({ message: 'Refund o-1021' }, { durable: true })) {
      events.push(event);
      if (event.type === 'approval-request')
        decided.push(mia.decide(event.approval.approvalId, 'approve', 'It came broken.'));
    }
    const [approval] = await Promise.all(decided);
    expect(approval).toMatchObject({
      answer: { decision: 'approve', reason: 'It came broken.', decidedBy: 'mia' },
    });
    const types = events.map(({ type }) => type);
    expect(types).toContain('approval-decision');
    expect(types.at(-1)).toBe('run-end');
    await expect(mia.decide(approval?.approvalId ?? '', 'deny')).rejects.toMatchObject({
      status: 409,
      code: 'already_answered',
    });
  });

  it('stops its run when its reader leaves', async () => {
    const model = new ScriptedModel([hangs('I am thinking')]);
    const desk = await serve({ model });
    const reading = new AbortController();
    const stopped = async () => {
      for await (const event of clientOf(desk.url).ask(QUESTION, { signal: reading.signal }))
        if (event.type === 'text-delta') reading.abort();
    };
    await expect(stopped()).rejects.toMatchObject({ name: 'AbortError' });
    while (model.openStreams > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(model.requests[0]?.signal.aborted).toBe(true);
  });

  it('starts, forks, cancels and undoes runs, and reads the events of one from a sequence on', async () => {
    const desk = await serve({ model: new ScriptedModel([...REFUND, text('Once more.')]) });
    const alice = clientOf(desk.url);
    const { runId } = await alice.start({ message: 'Refund o-1021' }, { requestId: 'q-1' });
    expect((await alice.start({ message: 'Refund o-1021' }, { requestId: 'q-1' })).runId).toBe(
      runId,
    );
    const events = alice.events(runId);
    for await (const event of events) if (event.type === 'approval-request') break;
    await alice.cancel(runId, 'Never mind.');
    const read = await all(alice.events(runId, { after: 2 }));
    expect([read[0]?.sequence, read.at(-1)?.type]).toEqual([3, 'run-end']);
    expect(await alice.run(runId)).toMatchObject({ status: 'ended', finishReason: 'aborted' });
    expect(await alice.undo(runId)).toEqual({ runId, calls: [] });
    expect(await alice.fork(runId, 0)).toMatchObject({ forkOf: { runId, step: 0 } });
  });

  it('calls a tool by hand, lists tools and keeps conversations', async () => {
    const desk = await serve({ model: new ScriptedModel([text('Hello.')]) });
    const alice = clientOf(desk.url);
    const tools: readonly ListedTool[] = await alice.tools();
    expect(tools.map(({ id }) => id)).toContain('orders__findOrder');
    expect(await alice.call('orders__findOrder', { orderId: 'o-1021' })).toMatchObject({
      record: { status: 'succeeded' },
      ui: expect.anything(),
    });
    await all(alice.ask({ message: 'Hello', conversationId: 'c-1' }));
    expect(await alice.conversations()).toMatchObject([{ conversationId: 'c-1' }]);
    expect((await alice.conversation('c-1')).entries.map(({ text: words }) => words)).toEqual([
      'Hello',
      'Hello.',
    ]);
    await alice.deleteConversation('c-1');
    expect(await alice.conversations()).toEqual([]);
  });

  it('stops a tool of the tenant for an operator, tells whose stop it is, and releases it', async () => {
    const desk = await serve();
    const operator = clientOf(desk.url, 'ops');
    const { stopId } = await operator.request('POST /policies/stops', {
      tool: 'orders__sendReceipt',
      reason: 'The mailer is on fire.',
    });
    expect(await stopsFor(operator)).toMatchObject([
      { stopId, tool: 'orders__sendReceipt', author: 'ops', reason: 'The mailer is on fire.' },
    ]);
    expect(await codes(stopsFor(clientOf(desk.url)))).toEqual([403, 'not_permitted']);
    await operator.request('POST /policies/stops/:stopId/release', {
      stopId,
      reason: 'The fire is out.',
    });
    expect(await stopsFor(operator)).toEqual([]);
  });

  it('reads what was used by day and tool, and the versions of policies', async () => {
    const desk = await serve();
    await clientOf(desk.url).call('orders__findOrder', { orderId: 'o-1021' });
    const used = await clientOf(desk.url).usage({ actor: 'alice', groupBy: ['day', 'tool'] });
    expect(used).toMatchObject([{ tool: 'orders__findOrder', calls: 1, answers: 0 }]);
    expect(await clientOf(desk.url, 'ops').request('GET /policies', {})).toEqual([]);
  });

  it('tells the reason of a refusal, and never leaves the route of an id', async () => {
    const desk = await serve();
    expect(await codes(clientOf(desk.url, 'eve').tools())).toEqual([401, 'unauthorized']);
    expect(await codes(clientOf(desk.url).run('../approvals'))).toEqual([404, 'unknown_run']);
    for (const id of ['..', 'half \ud800'])
      expect(() => clientOf(desk.url).run(id)).toThrow('is no id');
  });
});
