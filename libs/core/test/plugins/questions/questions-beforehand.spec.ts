import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  ActorDirectory,
  LlmTool,
  type PendingError,
  type Policy,
  tool,
  type ToolCallContext,
  ToolContext,
  ToolLoopModule,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import type { Question } from '@toolloop/core/contracts';
import { RunService } from '@toolloop/core/runs';
import {
  DirectiveStore,
  MemoryCallJournal,
  CallJournal,
  PendingStore,
} from '@toolloop/core/stores';
import {
  call,
  calls,
  collect,
  eventsOf,
  ScriptedModel,
  type ScriptedTurn,
  text,
} from '@toolloop/testing';
import type { JSONSchema7 } from 'json-schema';
import { filter, firstValueFrom } from 'rxjs';
import { inAnHour } from '../../fixtures/time.js';

interface Person {
  readonly id: string;
  readonly roles?: readonly string[];
}
const as = (id: string, tenant = 'acme', ...roles: string[]) => ({
  actor: { id, roles } satisfies Person,
  tenant,
});
const alice = as('alice');
const mia = as('mia', 'acme', 'manager');
const max = as('max', 'acme', 'manager');
const open: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
const byManagers: Policy = {
  ...open,
  version: 'v2',
  questions: [{ tools: ['orders__*'], roles: ['manager'] }],
};
const REASON: Question = {
  key: 'reason',
  question: 'Why is it cancelled?',
  schema: { type: 'string', minLength: 3, maxLength: 20 },
};
const PIECES: Question = {
  key: 'pieces',
  question: 'How many of them?',
  schema: { type: 'integer', minimum: 1 },
};
const cancel = (args: object = { orderId: 'o-1' }) => call('orders__cancel', args as never);

interface Cancelling {
  readonly orderId: string;
  readonly reason?: string;
  readonly pieces?: number;
}

/** A desk whose tool cancels orders, once it knows why. */
async function desk(
  script: readonly ScriptedTurn[],
  {
    policy = open,
    questions,
    more = {},
  }: {
    policy?: Policy | readonly Policy[];
    questions?: (input: Cancelling) => Question[];
    more?: object;
  } = {},
) {
  const made: Cancelling[] = [];
  const asked: Cancelling[] = [];
  const cancelling = tool<Cancelling>({
    id: 'orders__cancel',
    description: 'Cancels an order.',
    effect: 'state_change',
    reveal: 'all',
    input: {
      type: 'object',
      properties: {
        orderId: { type: 'string' },
        reason: { type: 'string' },
        pieces: { type: 'integer' },
      },
      required: ['orderId'],
    },
    questions: (input) => {
      asked.push(input);
      return questions ? questions(input) : [REASON];
    },
    execute: (input) => made.push(input),
    ...more,
  });
  class Directory extends ActorDirectory {
    override find(id: string): Promise<unknown> {
      return Promise.resolve({ id });
    }
  }
  const model = new ScriptedModel(script);
  const journal = new MemoryCallJournal();
  const providers = [
    { provide: CallJournal, useValue: journal },
    { provide: ActorDirectory, useClass: Directory },
  ];
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model,
        policy,
        tools: [cancelling],
        providers,
        audit: { key: 'k'.repeat(32) },
      }),
    ],
  }).compile();
  module.useLogger(false);
  await module.init();
  const loop: ToolLoopService = module.get(ToolLoopService);
  const runs: RunService = module.get(RunService);
  const store = module.get<PendingStore>(PendingStore);
  const answered = (runId: string, reply: object, who: ReturnType<typeof as> = alice) =>
    runs.answer(runId, reply as never, who).then(
      () => 'taken',
      (error: PendingError) => error.code,
    );
  return {
    module,
    loop,
    runs,
    store,
    made,
    asked,
    answered,
    idOf: async (kind: string) =>
      (await store.list({ tenant: 'acme' })).findLast((one) => one.kind === kind && !one.answer)
        ?.id ?? '',
    ask: (options = {}) => loop.run({ prompt: 'Go on.', ...alice, ...options }),
    resume: async (runId: string, options = {}) =>
      (await loop.resume(runId, { ...alice, ...options })).result,
  };
}

describe('what a tool that changes things asks before its call', () => {
  it('becomes an argument of the call, which is made once', async () => {
    const { loop, answered, resume, made, idOf } = await desk([calls(cancel()), text('Done.')]);
    const events = await collect(loop.stream({ prompt: 'Go on.', ...alice }));
    const [asked] = eventsOf(events, 'pending-request');
    expect(asked).toMatchObject({
      kind: 'question',
      request: { question: REASON.question, askedBy: 'tool', isTainted: false },
    });
    expect(events.at(-1)).toMatchObject({ finishReason: 'waiting', waitingFor: 'question' });
    const runId = asked?.runId ?? '';
    expect(await answered(runId, { questionId: await idOf('question'), answer: 'Too late' })).toBe(
      'taken',
    );
    expect(await resume(runId)).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded', args: { reason: 'Too late' } }],
    });
    expect(made).toEqual([{ orderId: 'o-1', reason: 'Too late' }]);
  });

  it('is asked of those whom the policy names, and of two of them who answer at once one is heard', async () => {
    const { ask, answered, resume, idOf, made, runs } = await desk(
      [calls(cancel()), text('Done.')],
      { policy: byManagers },
    );
    const { runId } = await ask();
    const questionId = await idOf('question');
    // who sees it, and may withdraw it
    expect(await answered(runId, { questionId, answer: 'Too late' }, alice)).toBe('not_permitted');
    expect(await answered(runId, { questionId, answer: 'Too late' }, as('bob'))).toBe('not_found');
    expect(
      await answered(runId, { questionId, answer: 'Too late' }, as('eve', 'globex', 'manager')),
    ).toBe('not_found');
    const given = await Promise.all([
      answered(runId, { questionId, answer: 'Of Mia' }, mia),
      answered(runId, { questionId, answer: 'Of Max' }, max),
    ]);
    expect(given.toSorted((one, other) => one.localeCompare(other))).toEqual([
      'already_answered',
      'taken',
    ]);
    await resume(runId);
    expect(made).toEqual([{ orderId: 'o-1', reason: given[0] === 'taken' ? 'Of Mia' : 'Of Max' }]);
    expect((await runs.get(runId, alice)).status).toBe('ended');
  });

  it('is asked of people who meet the terms of every policy, in shadow left out', async () => {
    const shadow: Policy = {
      ...open,
      version: 's',
      shadow: true,
      questions: [{ roles: ['auditor'] }],
    };
    const { ask, answered, idOf } = await desk([calls(cancel())], { policy: [byManagers, shadow] });
    const own: Policy = { ...open, version: 'own', questions: [{ notRequester: true }] };
    const { runId } = await ask({ policy: own, actor: mia.actor });
    const reply = { questionId: await idOf('question'), answer: 'Too late' };
    expect(await answered(runId, reply, mia)).toBe('not_permitted');
    expect(await answered(runId, reply, max)).toBe('taken');
  });

  it('is asked anew where the policy names other people by then', async () => {
    const { ask, answered, resume, idOf, made } = await desk([calls(cancel()), text('Done.')]);
    const { runId } = await ask();
    await answered(runId, { questionId: await idOf('question'), answer: 'Of Alice' });
    expect(await resume(runId, { policy: byManagers })).toMatchObject({
      finishReason: 'waiting',
      waitingFor: 'question',
    });
    expect(
      await answered(runId, { questionId: await idOf('question'), answer: 'Of Mia' }, mia),
    ).toBe('taken');
    await resume(runId, { policy: byManagers });
    expect(made).toEqual([{ orderId: 'o-1', reason: 'Of Mia' }]);
  });

  it('is decided about with its answer: by the rules on arguments, and by the person who approves', async () => {
    const dear = {
      type: 'object',
      properties: { pieces: { minimum: 100 } },
      required: ['pieces'],
    } satisfies JSONSchema7;
    const policy: Policy = { ...open, requireApproval: [{ arguments: dear, roles: ['manager'] }] };
    const { ask, answered, resume, idOf, made, runs, store, asked } = await desk(
      [calls(cancel()), text('Done.')],
      {
        policy,
        questions: ({ pieces }) => (pieces === undefined ? [PIECES] : []),
      },
    );
    const { runId } = await ask();
    await answered(runId, { questionId: await idOf('question'), answer: 500 });
    expect(await resume(runId)).toMatchObject({ finishReason: 'waiting', waitingFor: 'approval' });
    const approvalId = await idOf('approval');
    expect((await store.find(approvalId))?.request).toMatchObject({
      args: { orderId: 'o-1', pieces: 500 },
    });
    expect(made).toEqual([]);
    await runs.answer(runId, { approvalId, decision: 'approve' }, mia);
    expect(await resume(runId)).toMatchObject({ toolCalls: [{ status: 'succeeded' }] });
    expect(made).toEqual([{ orderId: 'o-1', pieces: 500 }]);
    // and no more once its answers were used
    expect(asked).toEqual([{ orderId: 'o-1' }, { orderId: 'o-1' }]);
  });

  it('stands once it is used, whatever the tool would ask by then', async () => {
    let most = 2;
    const policy: Policy = { ...open, requireApproval: [{ tools: ['orders__cancel'] }] };
    const { ask, answered, resume, idOf, made } = await desk([calls(cancel()), text('Done.')], {
      policy,
      questions: () => (most-- > 0 ? [REASON] : []),
    });
    const { runId } = await ask();
    await answered(runId, { questionId: await idOf('question'), answer: 'Too late' });
    await resume(runId);
    await answered(runId, { approvalId: await idOf('approval'), decision: 'approve' });
    await resume(runId);
    expect(made).toEqual([{ orderId: 'o-1', reason: 'Too late' }]);
  });

  it('invariant 12: takes no forged answer: of another run, person or tenant, of a wrong shape, or a second one; and none is consent', async () => {
    const policy: Policy = { ...open, requireApproval: [{ tools: ['orders__cancel'] }] };
    const { ask, answered, idOf, resume, made } = await desk(
      [calls(cancel()), calls(cancel()), text('Done.')],
      { policy },
    );
    const [other, { runId }] = [await ask(), await ask()];
    const reply = { questionId: await idOf('question'), answer: 'Too late' };
    expect(await answered(other.runId, reply)).toBe('not_found');
    expect(await answered(runId, reply, as('alice', 'globex'))).toBe('not_found');
    expect(await answered(runId, reply, mia)).toBe('not_found');
    for (const forged of [
      { answer: 'no' },
      { answer: 7 },
      { answer: { orderId: 'o-2' } },
      {},
      { decision: 'approve' },
    ])
      expect(await answered(runId, { questionId: reply.questionId, ...forged })).toBe(
        'invalid_answer',
      );
    expect(await answered(runId, { approvalId: reply.questionId, decision: 'approve' })).toBe(
      'invalid_answer',
    );
    expect(
      await answered(runId, { toolCallId: 'call_1', pendingId: reply.questionId, result: 'x' }),
    ).toBe('invalid_answer');
    expect(await answered(runId, reply)).toBe('taken');
    expect(await answered(runId, reply)).toBe('already_answered');
    expect(await resume(runId)).toMatchObject({ waitingFor: 'approval' });
    expect(made).toEqual([]);
  });

  it.each([
    ['declined', { decision: 'deny', reason: 'Ask her.' }, 'Ask her.'],
    ['withdrawn', { decision: 'withdraw' }, 'gave no answer'],
  ])(
    'keeps the call from being made where it is %s, and takes the others back',
    async (_how, reply, told) => {
      const { ask, answered, idOf, resume, made, store } = await desk(
        [calls(cancel()), text('Done.')],
        {
          questions: () => [REASON, PIECES],
        },
      );
      const { runId } = await ask();
      const [first, second] = await store.list({ tenant: 'acme' });
      expect(await answered(runId, { questionId: first?.id, ...reply })).toBe('taken');
      const { toolCalls } = await resume(runId);
      expect(toolCalls).toMatchObject([
        { status: 'failed', error: { safeMessage: expect.stringContaining(told) } },
      ]);
      expect(await answered(runId, { questionId: second?.id, answer: 5 })).toBe('withdrawn');
      expect([made, await idOf('question')]).toEqual([[], '']);
    },
  );

  it('takes no answer after its time, and then the call is not made', async () => {
    const policy: Policy = { ...open, questions: [{ expiresAfterMs: 1_000 }] };
    const { ask, answered, idOf, resume, made } = await desk([calls(cancel()), text('Done.')], {
      policy,
    });
    const { runId } = await ask();
    const questionId = await idOf('question');
    await inAnHour(async () => {
      expect(await answered(runId, { questionId, answer: 'Too late' })).toBe('expired');
      expect((await resume(runId)).toolCalls).toMatchObject([
        { status: 'failed', error: { safeMessage: 'The question was not answered in time.' } },
      ]);
    });
    expect(made).toEqual([]);
  });

  it('waits for all of its questions, in its process as well', async () => {
    const { loop, runs, made } = await desk([calls(cancel()), text('Done.')], {
      questions: () => [REASON, PIECES],
    });
    const handle = loop.open({ prompt: 'Go on.', approvals: 'wait', ...alice });
    handle.events$.subscribe((event) => {
      if (event.type !== 'pending-request' || event.kind !== 'question') return;
      const { questionId, question } = event.request;
      void runs.answer(
        event.runId,
        { questionId, answer: question === PIECES.question ? 3 : 'Too late' },
        alice,
      );
    });
    expect(await handle.result).toMatchObject({ finishReason: 'stop' });
    expect(made).toEqual([{ orderId: 'o-1', reason: 'Too late', pieces: 3 }]);
  });

  it('is not asked for a call that waits behind another', async () => {
    const { ask, store } = await desk([calls(cancel(), cancel({ orderId: 'o-2' })), text('Done.')]);
    await ask();
    expect(await store.list({ tenant: 'acme' })).toHaveLength(1);
  });

  it('is in the arguments of a directive, which asks nothing when it is performed', async () => {
    const directive = { type: 'order.cancel', subject: '{orderId}' };
    const { ask, answered, idOf, resume, made, module, asked } = await desk(
      [calls(cancel()), text('Done.')],
      { more: { directive } },
    );
    const { runId } = await ask();
    await answered(runId, { questionId: await idOf('question'), answer: 'Too late' });
    const directives = module.get<DirectiveStore>(DirectiveStore);
    const performed = firstValueFrom(
      directives.changes$.pipe(filter(({ event }) => event === 'succeeded')),
    );
    await resume(runId);
    const [kept] = await directives.list({ tenant: 'acme' });
    expect(JSON.parse(kept?.intent.call.args ?? '')).toEqual({
      orderId: 'o-1',
      reason: 'Too late',
    });
    await performed;
    expect([made, asked.length]).toEqual([[{ orderId: 'o-1', reason: 'Too late' }], 2]);
    await module.close();
  });

  it('leaves the run as it was with its answer, so that a tainted one still needs an approval', async () => {
    const policy: Policy = { ...open, flow: 'taint' };
    const one = await desk([calls(cancel()), text('Done.')], {
      policy,
      more: { labels: { decisive: ['reason'] } },
    });
    const { runId } = await one.ask();
    await one.answered(runId, { questionId: await one.idOf('question'), answer: 'Too late' });
    expect(await one.resume(runId)).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded' }],
    });

    const tainted = await desk([calls(cancel()), text('Done.')], {
      policy,
      more: { labels: { decisive: ['reason'] } },
    });
    const read = {
      role: 'assistant',
      content: 'I read it.',
      labels: { returns: 'untrusted', reads: 'public' },
    } as const;
    const messages = [
      { role: 'user', content: 'Read it.' },
      read,
      { role: 'user', content: 'Go on.' },
    ] as const;
    const begun = await tainted.ask({ prompt: undefined, messages });
    expect((await tainted.store.list({ tenant: 'acme' }))[0]?.request).toMatchObject({
      isTainted: true,
    });
    await tainted.answered(begun.runId, {
      questionId: await tainted.idOf('question'),
      answer: 'Too late',
    });
    expect(await tainted.resume(begun.runId)).toMatchObject({ waitingFor: 'approval' });
  });

  it.each<[string, () => unknown]>([
    ['names no argument', () => [{ ...REASON, key: 'why' }]],
    ['names one twice', () => [REASON, REASON]],
    ['names a reserved one', () => [{ ...REASON, key: 'tenant' }]],
    ['asks for a secret', () => [{ ...REASON, question: 'Your ｐａｓｓｗｏｒｄ?' }]],
    ['has letters that are not seen', () => [{ ...REASON, question: 'Your pass\u200bword?' }]],
    ['is no list', () => 'Why?'],
    [
      'throws',
      () => {
        throw new Error('Broken.');
      },
    ],
  ])('fails the call where it %s, and no one is asked', async (_how, questions) => {
    const { ask, made, store } = await desk([calls(cancel()), text('No.')], {
      questions: questions as never,
    });
    expect((await ask()).toolCalls).toMatchObject([
      { status: 'failed', error: { code: 'execution_failed' } },
    ]);
    expect([made, await store.list({ tenant: 'acme' })]).toEqual([[], []]);
  });
});

/** Starts an application with one provider, and returns what keeps it from starting. */
async function findingsOf(type: new () => object): Promise<string> {
  const module = await Test.createTestingModule({
    imports: [ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy: open })],
    providers: [type],
  }).compile();
  module.useLogger(false);
  return module.init().then(
    () => 'started',
    (error: Error) => error.message,
  );
}

const CHANGES = { description: 'Changes.', effect: 'state_change', reveal: 'all' } as const;

describe('context.ask in a tool that changes things', () => {
  it('is a finding at start, under any name of the context', async () => {
    @Injectable()
    @ToolProvider({ namespace: 'orders' })
    class OrderTools {
      @LlmTool(CHANGES)
      async cancel(@ToolContext() ctx: ToolCallContext): Promise<unknown> {
        return ctx.ask(REASON);
      }

      @LlmTool(CHANGES)
      async ship(
        @ToolContext()
        { tenant, ask }: { tenant: string; ask: (question: Question) => Promise<unknown> },
      ): Promise<unknown> {
        return [tenant, await ask(REASON)];
      }

      @LlmTool({ ...CHANGES, effect: 'read_only', questions: () => [REASON] })
      read(): string {
        return '';
      }
    }
    const findings = await findingsOf(OrderTools);
    for (const name of ['cancel', 'ship'])
      expect(findings).toMatch(
        new RegExp(`OrderTools\\.${name}: It changes things, and its method asks`),
      );
    expect(findings).toMatch(
      /OrderTools\.read: It only reads and has questions for before its calls/,
    );
  });

  it('is none where something else is asked', async () => {
    @Injectable()
    @ToolProvider({ namespace: 'orders' })
    class OrderTools {
      private readonly oracle = {
        context: { ask: (_what: unknown) => 'yes' },
        ask: (_what: unknown) => 'yes',
      };

      @LlmTool(CHANGES)
      cancel(@ToolContext() context: ToolCallContext): unknown {
        // context.ask would be a mistake here
        return [this.oracle.ask('context.ask'), this.oracle.context.ask(context.tenant)];
      }

      @LlmTool({ ...CHANGES, effect: 'read_only' })
      read(@ToolContext() context: ToolCallContext): unknown {
        return context.ask(REASON);
      }
    }
    expect(await findingsOf(OrderTools)).toBe('started');
  });
});
