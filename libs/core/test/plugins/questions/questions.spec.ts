import { describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import {
  type PendingError,
  type Policy,
  tool,
  type ToolCallContext,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import type { Question } from '@toolloop/core/contracts';
import { RunService } from '@toolloop/core/runs';
import { PendingStore } from '@toolloop/core/stores';
import {
  call,
  calls,
  collect,
  eventsOf,
  ScriptedModel,
  type ScriptedTurn,
  text,
} from '@toolloop/testing';
import { inAnHour } from '../../fixtures/time.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const open: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
const SIZE: Question = {
  key: 'size',
  question: 'Which size?',
  schema: { type: 'string', enum: ['S', 'M'] },
};
const COUNT: Question = {
  key: 'count',
  question: 'How many?',
  schema: { type: 'integer', minimum: 1 },
};
const guess = () => call('shop__guess', {});

/** Where the start of an application does not see it. */
async function answersTo(
  questions: readonly Question[],
  context: ToolCallContext,
): Promise<unknown[]> {
  const answers = [];
  for (const question of questions) answers.push(await context.ask(question));
  return answers;
}

const answersAtOnce = (
  questions: readonly Question[],
  context: ToolCallContext,
): Promise<unknown[]> => Promise.all(questions.map((question) => context.ask(question)));

/**
 * A desk whose tool asks these questions, one after the other, and says how often it was called.
 */
async function desk(
  script: readonly ScriptedTurn[],
  questions: readonly Question[] = [SIZE],
  {
    effect = 'read_only',
    most = 2,
    atOnce = false,
  }: { effect?: 'read_only' | 'state_change'; most?: number; atOnce?: boolean } = {},
) {
  const made = { starts: 0 };
  const guessing = tool({
    id: 'shop__guess',
    description: 'Guesses.',
    effect,
    reveal: 'all',
    execute: async (_input, context) => {
      made.starts += 1;
      return atOnce ? answersAtOnce(questions, context) : answersTo(questions, context);
    },
  });
  const policy: Policy = { ...open, runBudgets: [{ tools: ['shop__guess'], calls: most }] };
  const model = new ScriptedModel(script);
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({ model, policy, tools: [guessing], audit: { key: 'k'.repeat(32) } }),
    ],
  }).compile();
  module.useLogger(false);
  await module.init();
  const loop: ToolLoopService = module.get(ToolLoopService);
  const runs: RunService = module.get(RunService);
  const store = module.get<PendingStore>(PendingStore);
  const refused = (runId: string, reply: object, who: typeof alice = alice) =>
    runs.answer(runId, reply, who).then(
      () => 'taken',
      (error: PendingError) => error.code,
    );
  const last = async (): Promise<string> => (await store.list({ tenant: 'acme' })).at(-1)?.id ?? '';
  return {
    loop,
    runs,
    store,
    made,
    refused,
    last,
    ask: (more = {}) => loop.run({ prompt: 'Go on.', ...alice, ...more }),
    resume: async (runId: string) => (await loop.resume(runId, alice)).result,
  };
}

describe('a question that a tool asks', () => {
  it('ends the attempt, has the run wait, and is answered when the method is called again from its top', async () => {
    const { loop, runs, resume, made, last } = await desk(
      [calls(guess()), text('Done.')],
      [SIZE, COUNT],
    );
    const events = await collect(loop.stream({ prompt: 'Go on.', ...alice }));
    const [asked] = eventsOf(events, 'pending-request');
    expect(asked).toMatchObject({
      kind: 'question',
      request: { question: 'Which size?', schema: SIZE.schema, askedBy: 'tool', isTainted: false },
    });
    expect(events.at(-1)).toMatchObject({ finishReason: 'waiting', waitingFor: 'question' });
    const runId = asked?.runId ?? '';
    await runs.answer(runId, { questionId: await last(), answer: 'M' }, alice);
    expect(await resume(runId)).toMatchObject({ finishReason: 'waiting', waitingFor: 'question' });
    await runs.answer(runId, { questionId: await last(), answer: 3 }, alice);
    expect(await resume(runId)).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded', result: ['M', 3] }],
    });
    expect(made.starts).toBe(3);
  });

  it('is kept together with those that are asked at once, so that people see all of them', async () => {
    const { ask, store, refused, resume } = await desk(
      [calls(guess()), text('Done.')],
      [SIZE, COUNT],
      { atOnce: true },
    );
    const { runId } = await ask();
    const asked = await store.list({ tenant: 'acme' });
    expect(asked.map(({ request }) => 'key' in request && request.key)).toEqual(['size', 'count']);
    for (const [index, answer] of ['M', 2].entries())
      expect(await refused(runId, { questionId: asked[index]?.id, answer })).toBe('taken');
    expect((await resume(runId)).toolCalls[0]).toMatchObject({
      status: 'succeeded',
      result: ['M', 2],
    });
  });

  it('takes several choices of a list as an answer, and no others', async () => {
    const sizes = [
      { const: 's', title: 'Small' },
      { const: 'm', title: 'Medium' },
    ];
    const question: Question = {
      key: 'sizes',
      question: 'Which sizes?',
      schema: { type: 'array', items: { type: 'string', anyOf: sizes } },
    };
    const { ask, refused, last, resume } = await desk([calls(guess()), text('Done.')], [question]);
    const { runId } = await ask();
    for (const answer of ['s', ['l'], [1]])
      expect(await refused(runId, { questionId: await last(), answer })).toBe('invalid_answer');
    expect(await refused(runId, { questionId: await last(), answer: ['s', 'm'] })).toBe('taken');
    expect((await resume(runId)).toolCalls[0]).toMatchObject({ result: [['s', 'm']] });
  });

  it('invariant 12: takes no forged answer: of another run, person or tenant, of a wrong shape, a second one, or one at the same time', async () => {
    const { ask, refused, last, resume } = await desk([
      calls(guess()),
      calls(guess()),
      text('Done.'),
    ]);
    const [other, { runId }] = [await ask(), await ask()];
    const reply = { questionId: await last(), answer: 'M' };
    expect(await refused(other.runId, reply)).toBe('not_found');
    expect(await refused(runId, reply, { actor: { id: 'bob' }, tenant: 'acme' })).toBe('not_found');
    expect(await refused(runId, reply, { actor: { id: 'alice' }, tenant: 'globex' })).toBe(
      'not_found',
    );
    for (const forged of [
      { answer: 'L' },
      { answer: 1 },
      { answer: null },
      {},
      { decision: 'approve' },
      { answer: 'M', decision: 'deny' },
    ])
      expect(await refused(runId, { questionId: reply.questionId, ...forged })).toBe(
        'invalid_answer',
      );
    expect(await refused(runId, { approvalId: reply.questionId, decision: 'approve' })).toBe(
      'invalid_answer',
    );
    const given = await Promise.all([
      refused(runId, reply),
      refused(runId, { ...reply, answer: 'S' }),
    ]);
    expect(given.toSorted((one, two) => one.localeCompare(two))).toEqual([
      'already_answered',
      'taken',
    ]);
    expect((await resume(runId)).toolCalls[0]).toMatchObject({
      result: [given[0] === 'taken' ? 'M' : 'S'],
    });
  });

  it.each([
    ['declined', { decision: 'deny', reason: 'None of your business.' }, 'gave no answer'],
    ['withdrawn', { decision: 'withdraw' }, 'gave no answer'],
  ])('tells its tool that it was %s', async (_how, reply, told) => {
    const { ask, refused, last, resume } = await desk([calls(guess()), text('Done.')]);
    const { runId } = await ask();
    const questionId = await last();
    expect(await refused(runId, { questionId, ...reply })).toBe('taken');
    expect(await refused(runId, { questionId, answer: 'M' })).toMatch(/already_answered|withdrawn/);
    expect((await resume(runId)).toolCalls[0]).toMatchObject({
      status: 'failed',
      error: { safeMessage: expect.stringContaining(told) },
    });
  });

  it('expires after a day, not after an hour', async () => {
    const { ask, refused, last, store } = await desk([calls(guess())]);
    const { runId } = await ask();
    const [asked] = await store.list({ tenant: 'acme' });
    expect(Date.parse(asked?.expiresAt ?? '') - Date.parse(asked?.createdAt ?? '')).toBe(
      86_400_000,
    );
    const questionId = await last();
    await inAnHour(async () =>
      expect(await refused(runId, { questionId, answer: 'M' })).toBe('taken'),
    );
  });

  it('takes the same path where its run waits in its process', async () => {
    const { loop, runs, made } = await desk([calls(guess()), text('Done.')]);
    const handle = loop.open({ prompt: 'Go on.', approvals: 'wait', ...alice });
    handle.events$.subscribe((event) => {
      if (event.type === 'pending-request' && event.kind === 'question')
        void runs.answer(event.runId, { questionId: event.request.questionId, answer: 'S' }, alice);
    });
    expect(await handle.result).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded', result: ['S'] }],
    });
    expect(made.starts).toBe(2);
  });

  it.each<[string, Question]>([
    [
      'a password by its name',
      {
        key: 'k',
        question: 'Log in',
        schema: { type: 'object', properties: { userPassword: { type: 'string' } } },
      },
    ],
    [
      'a token by its name',
      {
        key: 'k',
        question: 'Go on?',
        schema: { type: 'object', properties: { token: { type: 'string' } } },
      },
    ],
    [
      'a card number by its title',
      { key: 'k', question: 'Pay', schema: { type: 'string', title: 'Card number' } },
    ],
    [
      'a secret by its format',
      { key: 'k', question: 'Log in', schema: { type: 'string', format: 'password' } },
    ],
    [
      'a secret by its words',
      { key: 'k', question: 'What is your API key?', schema: { type: 'string' } },
    ],
    [
      'nested objects',
      {
        key: 'k',
        question: 'What?',
        schema: { type: 'object', properties: { a: { type: 'object' } } },
      },
    ],
    [
      'a list of anything',
      { key: 'k', question: 'What?', schema: { type: 'array', items: { type: 'string' } } },
    ],
    ['a pattern', { key: 'k', question: 'What?', schema: { type: 'string', pattern: '(a+)+$' } }],
    ['nothing', { key: 'k', question: ' ', schema: { type: 'string' } }],
  ])('is refused where it asks for %s', async (_what, question) => {
    const { ask, store } = await desk([calls(guess()), text('No.')], [question]);
    expect((await ask()).toolCalls[0]).toMatchObject({
      status: 'failed',
      error: { code: 'execution_failed' },
    });
    expect(await store.list({ tenant: 'acme' })).toEqual([]);
  });

  it('is refused in a tool that changes things, and in a run that asks no one', async () => {
    const changing = await desk([calls(guess()), text('No.')], [SIZE], { effect: 'state_change' });
    expect((await changing.ask()).toolCalls[0]).toMatchObject({ status: 'failed' });
    const alone = await desk([calls(guess()), text('No.')]);
    expect((await alone.ask({ approvals: 'deny' })).toolCalls[0]).toMatchObject({
      error: { safeMessage: 'No one can be asked in this run.' },
    });
    for (const { store } of [changing, alone])
      expect(await store.list({ tenant: 'acme' })).toEqual([]);
  });

  it('is one of five at most that wait in a run', async () => {
    const { ask, store } = await desk(
      [calls(...Array.from({ length: 6 }, guess)), text('Done.')],
      [SIZE],
      { most: 10 },
    );
    await ask({ limits: { identicalCalls: 10 } });
    expect(await store.list({ tenant: 'acme' })).toHaveLength(5);
  });
});
