import { describe, expect, it } from '@jest/globals';
import { ToolLoopClient } from '@toolloop/client';
import type { LoopEvent, LoopEventBody } from '@toolloop/protocol';
import { createElement } from 'react';
import { renderToString } from 'react-dom/server';
import {
  type CallPart,
  EMPTY_RUN,
  PendingList,
  RunReader,
  Thread,
  usePending,
  useRun,
  useToolLoop,
  withEvent,
} from '@toolloop/react';

const RUN = 'run-1';
const USAGE = { inputTokens: 10, outputTokens: 2, cachedInputTokens: 0, reasoningTokens: 0 };

function stamped(...bodies: readonly LoopEventBody[]): LoopEvent[] {
  return bodies.map((body, index) =>
    Object.assign({}, body, {
      runId: RUN,
      sequence: index + 1,
      timestamp: '2026-11-25T10:00:00.000Z',
    }),
  );
}

function result(more: object): LoopEventBody {
  const times = { attempt: 1, startedAt: new Date(0), endedAt: new Date(5), durationMs: 5 };
  return {
    type: 'tool-result',
    step: 1,
    record: {
      toolCallId: 'c1',
      id: 'crm__search',
      step: 1,
      index: 0,
      status: 'succeeded',
      ...times,
      ...more,
    },
  };
}

const CALL: readonly LoopEventBody[] = [
  { type: 'run-start', requestId: 'r', model: 'm', tools: ['crm__search'] },
  { type: 'step-start', step: 1, tools: 1 },
  {
    type: 'tool-call-delta',
    step: 1,
    toolCallId: 'c1',
    tool: 'crm__search',
    argumentsDelta: '{"name":',
  },
  {
    type: 'tool-call-delta',
    step: 1,
    toolCallId: 'c1',
    tool: 'crm__search',
    argumentsDelta: '"Ann"}',
  },
  { type: 'tool-call', step: 1, toolCallId: 'c1', tool: 'crm__search', args: { name: 'Ann' } },
  result({ result: [{ id: 'c-7' }] }),
  {
    type: 'tools-injected',
    step: 1,
    provider: 'Customer',
    instanceId: 'c-7',
    tools: ['customer_c-7_spend'],
  },
];

const ANSWER: readonly LoopEventBody[] = [
  { type: 'text-delta', step: 2, text: 'It is ' },
  { type: 'text-delta', step: 2, text: '42.' },
  { type: 'run-end', finishReason: 'stop', text: 'It is 42.', steps: 2, usage: USAGE },
];

const request = {
  approvalId: 'apr_1',
  runId: RUN,
  step: 1,
  toolCallId: 'c2',
  tool: 'refunds__pay',
  declaredId: 'refunds__pay',
  expiresAt: '2026-11-26T00:00:00.000Z',
  args: { orderId: 'o-1' },
  reason: 'A manager looks at it.',
  mayEdit: false,
  mayRemember: false,
};

function viewOf(events: readonly LoopEvent[]) {
  return events.reduce(withEvent, EMPTY_RUN);
}

function callIn(events: readonly LoopEvent[], toolCallId: string): CallPart | undefined {
  return viewOf(events).parts.find(
    (part): part is CallPart => part.kind === 'call' && part.toolCallId === toolCallId,
  );
}

/** Answers as an application does whose routes are these. */
function clientOf(routes: Readonly<Record<string, () => unknown>>): ToolLoopClient {
  const send = (
    input: string | URL | Request,
    { method = 'GET' }: RequestInit = {},
  ): Promise<Response> => {
    const { pathname } = new URL(input instanceof Request ? input.url : input);
    const answer = routes[`${method} ${pathname}`]?.();
    if (answer === undefined)
      return Promise.resolve(
        Response.json({ code: 'not_found', message: 'no route' }, { status: 404 }),
      );
    if (Array.isArray(answer) && answer.some((event) => 'sequence' in event))
      return Promise.resolve(streamed(answer as LoopEvent[]));
    return Promise.resolve(Response.json(answer));
  };
  return new ToolLoopClient({ url: 'http://desk.test', fetch: send });
}

function streamed(events: readonly LoopEvent[]): Response {
  const text = events
    .map((event) => `id: ${event.sequence}\ndata: ${JSON.stringify(event)}\n\n`)
    .join('');
  return new Response(text, { headers: { 'content-type': 'text/event-stream' } });
}

describe('the view of a run', () => {
  it('has the sources that the model names, in their order', () => {
    const [first, second] = [
      { url: 'https://weather.example/', title: 'The weather', start: 0, end: 5 },
      { source: 'rules.pdf' },
    ];
    const cites = [first, second].map((citation): LoopEventBody => ({
      type: 'citation',
      step: 2,
      citation,
    }));
    const view = viewOf(stamped(...CALL, ...cites, ...ANSWER));
    expect(view.citations).toEqual([first, second]);
    expect(view.parts.at(-1)).toMatchObject({ kind: 'text', text: 'It is 42.' });
  });

  it('shows a call from its first letter to its result, the tools that it brought, and the text behind it', () => {
    const events = stamped(...CALL, ...ANSWER);
    expect(callIn(events.slice(0, 4), 'c1')).toMatchObject({
      typed: '{"name":"Ann"}',
      brought: [],
    });
    const view = viewOf(events);
    expect(view.parts).toMatchObject([
      {
        kind: 'call',
        args: { name: 'Ann' },
        record: { status: 'succeeded' },
        brought: ['customer_c-7_spend'],
      },
      { kind: 'text', text: 'It is 42.' },
    ]);
    expect(view.tools).toMatchObject([
      { id: 'crm__search' },
      { provider: 'Customer', instanceId: 'c-7', broughtBy: 'c1' },
    ]);
    expect(view).toMatchObject({
      status: 'ended',
      finishReason: 'stop',
      lastSequence: events.length,
    });
  });

  it('holds an approval open until it is decided, and continues with the same call', () => {
    const asked = stamped(
      ...CALL.slice(0, 2),
      { type: 'approval-request', step: 1, approval: request },
      {
        type: 'run-end',
        finishReason: 'waiting',
        waitingFor: 'approval',
        text: '',
        steps: 1,
        usage: USAGE,
      },
      {
        type: 'approval-decision',
        step: 1,
        decision: { approvalId: 'apr_1', decision: 'deny', reason: 'No.' },
        decidedBy: 'mia',
      },
    );
    expect(viewOf(asked.slice(0, 4))).toMatchObject({ status: 'waiting', waitingFor: 'approval' });
    expect(callIn(asked, 'c2')).toMatchObject({
      request: { kind: 'approval' },
      answer: { decision: 'deny', by: 'mia', reason: 'No.' },
    });
    expect(viewOf(asked).status).toBe('running');
  });

  it('strikes tools that are gone with the reason, and keeps the events of a sub-run in a view of its own', () => {
    const [inner] = stamped({
      type: 'run-start',
      requestId: 's',
      tools: [],
      within: { runId: RUN, toolCallId: 'c1', tool: 'crm__search' },
    });
    const events = stamped(
      ...CALL.slice(0, 5),
      { type: 'tools-removed', step: 1, tools: ['crm__search'], reason: 'The phase is over.' },
      { type: 'sub-run', path: ['run-2'], event: { ...inner, runId: 'run-2' } as LoopEvent },
    );
    expect(viewOf(events).tools).toMatchObject([{ id: 'crm__search', gone: 'The phase is over.' }]);
    expect(callIn(events, 'c1')?.subRunId).toBe('run-2');
    expect(viewOf(events).subRuns['run-2']).toMatchObject({ runId: 'run-2' });
  });
});

describe('a conversation', () => {
  it('asks, shows the answer as it comes, and tells its components', async () => {
    const events = stamped(...CALL, ...ANSWER);
    const thread = new Thread(clientOf({ 'POST /chat': () => events }), { conversationId: 'talk' });
    const seen: string[] = [];
    thread.subscribe(() => seen.push(thread.snapshot().status));
    await thread.ask('How much?');
    expect([seen[0], seen.at(-1)]).toEqual(['answering', 'idle']);
    expect(thread.snapshot().turns).toMatchObject([
      { question: 'How much?', run: { runId: RUN, status: 'ended' } },
    ]);
  });

  it('reads on a run that is not durable once what it asked is answered elsewhere', async () => {
    const events = stamped(
      ...CALL.slice(0, 2),
      { type: 'approval-request', step: 1, approval: request },
      {
        type: 'run-end',
        finishReason: 'waiting',
        waitingFor: 'approval',
        text: '',
        steps: 1,
        usage: USAGE,
      },
      ...CALL.slice(0, 2),
      ...ANSWER,
    );
    const [asked, resumed] = [events.slice(0, 4), events.slice(4)];
    const thread = new Thread(
      clientOf({ 'POST /chat': () => asked, [`POST /runs/${RUN}/resume`]: () => resumed }),
      { durable: false },
    );
    await thread.ask('How much?');
    expect(thread.snapshot().status).toBe('waiting');
    const done = new Promise<void>((resolve) => {
      thread.subscribe(() => {
        if (thread.snapshot().status === 'idle') resolve();
      });
    });
    thread.readOn('another run');
    thread.readOn(RUN);
    await done;
    expect(thread.snapshot().turns).toMatchObject([
      { run: { status: 'ended', finishReason: 'stop' } },
    ]);
  });

  it('shows that it could not ask', async () => {
    const thread = new Thread(clientOf({}));
    await thread.ask('How much?');
    expect(thread.snapshot()).toMatchObject({
      status: 'idle',
      turns: [{ error: { status: 404 } }],
    });
  });
});

describe('a run and an inbox', () => {
  const run = {
    runId: RUN,
    status: 'ended',
    durable: true,
    lastSequence: 10,
    createdAt: '',
    updatedAt: '',
  };

  it('reads the events of a run to its end', async () => {
    const reader = new RunReader(
      clientOf({
        [`GET /runs/${RUN}`]: () => run,
        [`GET /runs/${RUN}/events`]: () => stamped(...CALL, ...ANSWER),
      }),
      RUN,
    );
    await reader.follow(new AbortController().signal);
    expect(reader.snapshot()).toMatchObject({
      reading: 'complete',
      run: { status: 'ended' },
      view: { finishReason: 'stop' },
    });
    expect(reader.snapshot().events).toHaveLength(10);
  });

  it('takes what was answered off the list, also where another was first', async () => {
    const entry = { id: 'apr_1', kind: 'approval', request, mayAnswer: true };
    const waiting = [[entry], []];
    const list = new PendingList(clientOf({ 'GET /pending': () => waiting.shift() ?? [] }));
    await list.refresh();
    const [open] = list.snapshot().requests;
    expect(open).toMatchObject({ id: 'apr_1' });
    const answered = open && list.answer(open, { approvalId: 'apr_1', decision: 'approve' });
    await expect(answered).rejects.toMatchObject({ status: 404 });
    expect(list.snapshot().requests).toEqual([]);
  });

  it('are shown by hooks, which ask nothing before they are in a page', () => {
    const client = clientOf({});
    const Page = (): ReturnType<typeof createElement> => {
      const { status } = useToolLoop(client);
      const { reading } = useRun(client, RUN);
      const { isLoading } = usePending(client);
      return createElement('p', {}, `${status} ${reading} ${String(isLoading)}`);
    };
    expect(renderToString(createElement(Page))).toBe('<p>idle loading true</p>');
  });
});
