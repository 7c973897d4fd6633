import { calledTool, type LoopRequest, policies, type Policy } from '@toolloop/core';
import { slidingWindow } from '@toolloop/core/history';
import { fallback } from '@toolloop/core/models';
import { unlock } from '@toolloop/core/strategies';
import { ModelError } from '@toolloop/protocol';
import {
  call,
  calls,
  fails,
  ScriptedModel,
  type ScriptedTurn,
  text,
  textAndCalls,
} from '@toolloop/testing';
import { IsInt, Max } from 'class-validator';
import { alice, type Desk, type DeskOptions, mia, OPEN } from './desk.js';

/** A few minutes of the life of an application: what its model says, and what people do. */
export interface Scenario {
  readonly name: string;
  readonly script: readonly ScriptedTurn[];
  readonly options?: DeskOptions;
  readonly play?: (desk: Desk) => Promise<unknown>;
}

const desk = (id: string, key = 'a'): ReturnType<typeof call> => call(`desk__${id}`, { key });
const DONE = text('Done.');
const ASKING: Policy = {
  ...OPEN,
  requireApproval: [
    { tools: ['desk__write', 'order_*_cancel'], roles: ['manager'], reason: 'It writes.' },
  ],
};

/** The first run alone, with options. */
const once =
  (request: Partial<LoopRequest>): NonNullable<Scenario['play']> =>
  (open) =>
    open.run(request);

/** A run that waits, an answer, and its second half. */
const answered =
  (
    reply: object,
    person = mia,
    request: Partial<LoopRequest> = {},
  ): NonNullable<Scenario['play']> =>
  async (open) => {
    const { runId } = await open.run(request);
    await open.answer(reply, person);
    await open.resume(runId);
  };

class Count {
  @IsInt() @Max(9) count!: number;
}

const CALLS: readonly Scenario[] = [
  { name: 'an answer without a call', script: [text('Hello.')] },
  { name: 'a read', script: [calls(desk('look')), DONE] },
  { name: 'a text and a change', script: [textAndCalls('I write.', desk('write')), DONE] },
  { name: 'two reads at once', script: [calls(desk('look', 'a'), desk('look', 'b')), DONE] },
  { name: 'a read beside a change', script: [calls(desk('look'), desk('write')), DONE] },
  {
    name: 'arguments that do not fit',
    script: [calls(call('desk__look', { key: 1, other: true })), DONE],
  },
  { name: 'a tool that there is not', script: [calls(call('desk__lok', { key: 'a' })), DONE] },
  {
    name: 'a tool that is denied',
    script: [calls(desk('write')), DONE],
    options: { policy: { ...OPEN, deny: ['desk__write'] } },
  },
  { name: 'a tool that fails', script: [calls(desk('fail')), DONE] },
  { name: 'a tool that refuses', script: [calls(desk('refuse')), DONE] },
  {
    name: 'a tool that is tried again',
    script: [calls(desk('flaky')), DONE],
    play: once({ onToolError: 'retry' }),
  },
  {
    name: 'a failure that ends the run',
    script: [calls(desk('fail'))],
    play: once({ onToolError: 'halt' }),
  },
  { name: 'a tool that does not answer', script: [calls(desk('hang')), DONE] },
  {
    name: 'a result that is too large',
    script: [calls(desk('big')), DONE],
    play: once({ limits: { resultBytes: 1000 } }),
  },
  { name: 'progress', script: [calls(call('shop__count')), DONE] },
];

const WAITING: readonly Scenario[] = [
  {
    name: 'an approval',
    script: [calls(desk('write')), DONE],
    options: { policy: ASKING },
    play: answered({ decision: 'approve' }),
  },
  {
    name: 'a denial',
    script: [calls(desk('write')), DONE],
    options: { policy: ASKING },
    play: answered({ decision: 'deny', reason: 'Not today.' }),
  },
  {
    name: 'calls behind one that waits',
    script: [calls(desk('write'), desk('send'), desk('look')), DONE],
    options: { policy: ASKING },
    play: answered({ decision: 'approve' }),
  },
  {
    name: 'approvals that no one may be asked for',
    script: [calls(desk('write')), DONE],
    options: { policy: ASKING },
    play: once({ approvals: 'deny' }),
  },
  {
    name: 'an approval that is waited for',
    script: [calls(desk('write')), DONE],
    options: { policy: ASKING },
    play: async (open) => {
      const run = open.run({ approvals: 'wait' });
      while ((await open.inbox.inbox(mia)).length === 0)
        await new Promise((resolve) => setTimeout(resolve, 5));
      await open.answer({ decision: 'approve' });
      await run;
    },
  },
  {
    name: 'a question before a call',
    script: [calls(desk('choose')), DONE],
    play: answered({ answer: 'large' }, alice),
  },
  {
    name: 'a question within a call',
    script: [calls(desk('inquire')), DONE],
    play: answered({ answer: 3 }, alice),
  },
  {
    name: 'a call of the client',
    script: [calls(desk('sign')), DONE],
    play: answered({ result: { signed: true } }, alice),
  },
  {
    name: 'a call of the client that fails',
    script: [calls(desk('sign')), DONE],
    play: answered({ error: 'No pen.' }, alice),
  },
  {
    name: 'a run that is cancelled while it waits',
    script: [calls(desk('write'))],
    options: { policy: ASKING },
    play: async (open) => {
      const { runId } = await open.run();
      await open.runs.cancel(runId, alice, 'Never mind.');
    },
  },
];

const STANDINS: readonly Scenario[] = [
  {
    name: 'a directive',
    script: [calls(desk('book')), DONE],
    play: async (open) => {
      const performed = open.performed();
      await open.run();
      await performed;
    },
  },
  {
    name: 'a directive that is undone with its run',
    script: [calls(desk('book')), DONE],
    play: async (open) => {
      const performed = open.performed();
      const { runId } = await open.run();
      await performed;
      await open.runs.undo(runId, alice, 'It was wrong.').catch(() => undefined);
    },
  },
  {
    name: 'a rehearsal',
    script: [calls(desk('look'), desk('write')), DONE],
    play: once({ rehearse: true }),
  },
  {
    name: 'a rehearsal that is performed',
    script: [calls(desk('write')), DONE],
    play: async (open) => {
      const { runId } = await open.run({ rehearse: true });
      await open.answer({ decision: 'approve' }, alice);
      await open.resume(runId);
    },
  },
  {
    name: 'a sub-run',
    script: [
      calls(call('desk__delegate', { prompt: 'Look.' })),
      calls(desk('look')),
      text('Looked.'),
      DONE,
    ],
  },
  {
    name: 'a sub-run that asks',
    script: [
      calls(call('desk__delegate', { prompt: 'Write.' })),
      calls(desk('write')),
      text('Written.'),
      DONE,
    ],
    options: { policy: ASKING },
    play: answered({ decision: 'approve' }),
  },
];

const ENTITIES: readonly Scenario[] = [
  {
    name: 'the tools of an entity',
    script: [calls(call('shop__findOrder', { id: 'o-1' })), calls(call('order_o-1_lines')), DONE],
  },
  {
    name: 'the tools of two entities',
    script: [
      calls(call('shop__listOrders')),
      calls(call('order_o-2_cancel', { reason: 'Late.' })),
      DONE,
    ],
  },
  {
    name: 'an approval about an entity',
    script: [
      calls(call('shop__findOrder', { id: 'o-1' })),
      calls(call('order_o-1_cancel', { reason: 'Late.' })),
      DONE,
    ],
    options: { policy: ASKING },
    play: answered({ decision: 'approve' }),
  },
  {
    name: 'an entity in the next turn',
    script: [
      calls(call('shop__findOrder', { id: 'o-1' })),
      DONE,
      calls(call('order_o-1_lines')),
      DONE,
    ],
    play: async (open) => {
      await open.run({ conversationId: 'c' });
      await open.run({ conversationId: 'c' });
    },
  },
  {
    name: 'a strategy that unlocks a tool',
    script: [calls(desk('look')), calls(desk('write')), DONE],
    play: once({
      tools: ['desk__look'],
      injection: [unlock({ after: 'desk__look', tools: ['desk__write'] })],
    }),
  },
];

const TALK: readonly Scenario[] = [
  {
    name: 'a conversation of two turns',
    script: [calls(desk('look')), text('It is a.'), text('Still a.')],
    play: async (open) => {
      await open.run({ conversationId: 'c', prompt: 'Look.' });
      await open.run({ conversationId: 'c', prompt: 'Again?' });
    },
  },
  {
    name: 'a message in a run',
    script: [calls(desk('look')), text('It is a.'), text('And b.')],
    play: async (open) => {
      const run = open.loop.open({ prompt: 'Look.', ...alice });
      run.addInput('And b?');
      await open.read(run);
    },
  },
  {
    name: 'a short history',
    script: [calls(desk('look', 'a')), calls(desk('look', 'b')), DONE],
    play: once({ history: slidingWindow({ messages: 2 }) }),
  },
  {
    name: 'a structured answer that is corrected',
    script: [text('{"count":12}'), text('{"count":3}')],
    play: once({ output: Count }),
  },
  {
    name: 'a stop condition',
    script: [calls(desk('look'))],
    play: once({ stopWhen: calledTool('desk__look') }),
  },
  {
    name: 'the last step',
    script: [calls(desk('look')), calls(desk('look', 'b'))],
    play: once({ limits: { steps: 2 } }),
  },
  { name: 'a model that fails for good', script: [fails(new ModelError('The key is wrong.'))] },
  {
    name: 'a second model',
    script: [],
    play: (open) =>
      open.run({
        model: fallback([
          new ScriptedModel([fails(new ModelError('Away.', { retryable: true }))]),
          new ScriptedModel([DONE]),
        ]),
      }),
  },
  {
    name: 'a run that is aborted',
    script: [calls(desk('look')), text('Never read.')],
    play: async (open) => {
      const run = open.loop.open({
        prompt: 'Go on.',
        ...alice,
        prepareStep: ({ step }) => void (step === 2 && run.cancel('Enough.')),
      });
      await open.read(run);
    },
  },
  {
    name: 'a request that is repeated',
    script: [calls(desk('write')), DONE, calls(desk('write')), DONE],
    play: async (open) => {
      await open.run({ requestId: 'r' });
      await open.run({ requestId: 'r' });
    },
  },
];

const FLOW: readonly Scenario[] = [
  {
    name: 'a change after words from outside at taint',
    script: [calls(desk('outside')), calls(desk('send', 'mallory')), DONE],
    options: { policy: { version: 'taint', allow: ['*'], flow: 'taint' } },
    play: answered({ decision: 'deny', reason: 'Who is that?' }, alice),
  },
  {
    name: 'words from outside at values',
    script: [calls(desk('outside')), DONE],
    options: { policy: { version: 'values', allow: ['*'], flow: 'values' } },
  },
  {
    name: 'everything that is allowed for all',
    script: [calls(desk('write')), DONE],
    options: { policy: policies.allowAll },
  },
];

const BY_HAND: readonly Scenario[] = [
  {
    name: 'a call without a model',
    script: [],
    play: async (open) =>
      open.results.push(
        await open.loop.call({ tool: 'desk__write', args: { key: 'a' }, ...alice }),
      ),
  },
  {
    name: 'a call without a model that waits',
    script: [],
    options: { policy: ASKING },
    play: async (open) => {
      const { runId } = await open.loop.call({ tool: 'desk__write', args: { key: 'a' }, ...alice });
      await open.answer({ decision: 'approve' });
      await open.resume(runId);
    },
  },
  {
    name: 'a session',
    script: [],
    play: async (open) => {
      const session = await open.loop.session({ ...alice, scope: 'desk' });
      open.results.push(
        await session.call('shop__findOrder', { id: 'o-1' }),
        await session.call('order_o-1_lines'),
      );
      await session.close();
    },
  },
];

export const SCENARIOS: readonly Scenario[] = [
  ...CALLS,
  ...WAITING,
  ...STANDINS,
  ...ENTITIES,
  ...TALK,
  ...FLOW,
  ...BY_HAND,
];
