import { describe, expect, it } from '@jest/globals';
import type { JSONSchema7 } from 'json-schema';
import {
  ActorDirectory,
  type LoopRequest,
  ModelError,
  type LoopResult,
  PendingService,
  type Policy,
  tool,
  ToolLoopService,
} from '@toolloop/core';
import { DirectiveService } from '@toolloop/core/directives';
import { RunService } from '@toolloop/core/runs';
import {
  AuditStore,
  type ConversationKey,
  ConversationStore,
  MemoryAuditStore,
} from '@toolloop/core/stores';
import {
  call,
  calls,
  expectTranscriptValid,
  fails,
  ScriptedModel,
  type ScriptedTurn,
  text,
} from '@toolloop/testing';
import { play, resultOf } from '../../fixtures/played-run.js';
import { ask, openModule } from '../../fixtures/shop.module.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const bob = { actor: { id: 'bob' }, tenant: 'acme' };
const conversationId = 'c1';
const OPEN: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
const ASKS: Policy = { ...OPEN, requireApproval: [{ tools: ['orders__cancel'] }] };

const cancel = (id = 'o-1') => call('orders__cancel', { id });
const read = (id = 'o-1') => call('orders__read', { id });
const ship = (id = 'o-1') => call('orders__ship', { id });

const ORDER: JSONSchema7 = {
  type: 'object',
  properties: { id: { type: 'string' } },
  required: ['id'],
};

class People extends ActorDirectory {
  override find(id: string): Promise<unknown> {
    return Promise.resolve({ id });
  }
}

interface Desk {
  readonly policy?: Policy;
  /** Is waited for before the effect. */
  readonly before?: () => unknown;
  readonly performs?: boolean;
}

const key = (more: Partial<ConversationKey> = {}) => ({
  tenant: 'acme',
  actorId: 'alice',
  conversationId,
  ...more,
});

async function desk(
  script: readonly ScriptedTurn[],
  { policy = OPEN, before = () => undefined, performs = true }: Desk = {},
) {
  const model = new ScriptedModel(script);
  const cancelled: string[] = [];
  const shipped: string[] = [];
  const effect = { input: ORDER, reveal: 'all', labels: { returns: 'trusted' } } as const;
  const tools = [
    tool({
      id: 'orders__cancel',
      description: 'Cancels an order.',
      effect: 'state_change',
      ...effect,
      execute: async ({ id }: { id: string }) => {
        await before();
        cancelled.push(id);
        return { cancelled: id, receipt: `r-${cancelled.length}` };
      },
    }),
    tool({
      id: 'orders__read',
      description: 'Reads an order.',
      effect: 'read_only',
      ...effect,
      execute: ({ id }: { id: string }) => ({ read: id }),
    }),
    tool({
      id: 'orders__ship',
      description: 'Ships an order later.',
      effect: 'external_side_effect',
      ...effect,
      directive: { type: 'order.ship', subject: '{id}' },
      execute: ({ id }: { id: string }) => shipped.push(id),
    }),
  ];
  const audit = new MemoryAuditStore();
  const module = await openModule(model, {
    policy,
    tools,
    directives: { perform: performs },
    audit: { key: 'a text of 32 characters or more, the same' },
    providers: [
      { provide: AuditStore, useValue: audit },
      { provide: ActorDirectory, useClass: People },
    ],
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const store: ConversationStore = module.get<ConversationStore>(ConversationStore);
  return {
    model,
    cancelled,
    shipped,
    loop,
    store,
    inbox: module.get<PendingService>(PendingService),
    runs: module.get<RunService>(RunService),
    directives: module.get<DirectiveService>(DirectiveService),
    audit,
    say: (more: Partial<LoopRequest> = {}): Promise<LoopResult> =>
      loop.run(ask({ conversationId, ...more })),
    kept: (more?: Partial<ConversationKey>) => store.load(key(more)),
    sent: () => (model.requests.at(-1)?.messages ?? []).map(({ role, content }) => [role, content]),
  };
}

/** A promise, and what resolves it. */
function signal(): [promise: Promise<void>, resolve: () => void] {
  const resolvers: (() => void)[] = [];
  const promise = new Promise<void>((resolve) => void resolvers.push(resolve));
  return [promise, () => resolvers[0]?.()];
}

/** The texts of a conversation, without its notes. */
const texts = (messages: Awaited<ReturnType<ConversationStore['load']>>) =>
  messages
    .filter(({ role }) => role !== 'system')
    .map(
      ({ role, content }) =>
        `${role}: ${typeof content === 'string' ? content : JSON.stringify(content)}`,
    );

describe('an answer that is asked for anew', () => {
  it('takes the place of the one before, with everything that was said behind it', async () => {
    const { say, kept, sent } = await desk([text('A'), text('B'), text('C'), text('B, better')]);
    await say({ prompt: 'First?' });
    const second = await say({ prompt: 'Second?' });
    await say({ prompt: 'Third?' });
    await say({ prompt: 'Second?', cut: { at: [second.runId] } });
    expect(sent()).toEqual([
      ['user', 'First?'],
      ['assistant', 'A'],
      ['user', 'Second?'],
    ]);
    expect(texts(await kept())).toEqual([
      'user: First?',
      'assistant: A',
      'user: Second?',
      'assistant: B, better',
    ]);
  });

  it('is found by the client’s own id of the question, again and again', async () => {
    const { say, kept } = await desk([text('A'), text('B'), text('C')]);
    for (const prompt of ['Hello', 'Hello, edited', 'Hello, edited twice'])
      await say({ prompt, messageId: 'm1', cut: { at: ['m1'] } });
    expect(texts(await kept())).toEqual(['user: Hello, edited twice', 'assistant: C']);
  });

  it('is put behind the last answer that stays if its place is not known', async () => {
    const { say, kept } = await desk([text('A'), text('B'), text('C')]);
    const first = await say({ prompt: 'First?' });
    await say({ prompt: 'Second?' });
    await say({
      prompt: 'Second, edited?',
      cut: { at: ['unknown'], after: ['unknown', first.runId] },
    });
    expect(texts(await kept())).toEqual([
      'user: First?',
      'assistant: A',
      'user: Second, edited?',
      'assistant: C',
    ]);
  });

  it('is added to a conversation in which nothing of the place is known', async () => {
    const { say, kept } = await desk([text('A'), text('B')]);
    await say({ prompt: 'First?' });
    await say({ prompt: 'Second?', cut: { at: ['unknown'] } });
    expect(texts(await kept())).toEqual([
      'user: First?',
      'assistant: A',
      'user: Second?',
      'assistant: B',
    ]);
  });

  it.each<[string, Partial<LoopRequest>, string]>([
    ['without a conversation', { conversationId: undefined, cut: { at: ['a'] } }, 'conversationId'],
    ['in a rehearsal', { rehearse: true, cut: { at: ['a'] } }, 'rehearsal'],
    ['without a place', { cut: {} as never }, 'lists'],
    ['at what is no id', { cut: { at: [''] } }, 'lists'],
    [
      'at more places than can be',
      { cut: { at: Array.from({ length: 101 }, () => 'a') } },
      'lists',
    ],
  ])('is refused %s', async (_, more, words) => {
    const { say } = await desk([text('A')]);
    await expect(say(more)).rejects.toThrow(words);
  });
});

async function regenerated(again: readonly ScriptedTurn[], more: Partial<LoopRequest> = {}) {
  const shop = await desk([calls(read()), calls(cancel()), text('It is cancelled.'), ...again]);
  const { runId } = await shop.say({ prompt: 'Cancel it.' });
  const { events, result } = await play(
    shop.loop,
    ask({ conversationId, prompt: 'Cancel it.', cut: { at: [runId] }, ...more }),
  );
  return { ...shop, events, result, runId };
}

describe('a change of an answer that is taken back', () => {
  const stands = {
    toolCallId: expect.any(String),
    declaredId: 'orders__cancel',
    status: 'succeeded',
    args: { id: 'o-1' },
  };

  it('is read by the model as done, and seen by the person', async () => {
    const { sent, events, cancelled, kept, model } = await regenerated([
      text('It was cancelled before.'),
    ]);
    expect(sent()).toEqual([
      ['system', expect.stringContaining('What it changed stands')],
      ['user', 'Cancel it.'],
      ['assistant', ''],
      ['tool', '{"cancelled":"o-1","receipt":"r-1"}'],
    ]);
    expectTranscriptValid(model.requests.at(-1)?.messages ?? []);
    expect(events.filter(({ type }) => type === 'call-stands')).toEqual([
      expect.objectContaining({
        type: 'call-stands',
        call: expect.objectContaining({ ...stands, result: { cancelled: 'o-1', receipt: 'r-1' } }),
      }),
    ]);
    expect(cancelled).toEqual(['o-1']);
    expect(texts(await kept()).at(-1)).toBe('assistant: It was cancelled before.');
  });

  it('is not made again by the same call, which is answered with what it did', async () => {
    const { cancelled, result, sent } = await regenerated([calls(cancel()), text('Done.')]);
    expect(cancelled).toEqual(['o-1']);
    expect(result.toolCalls).toEqual([
      expect.objectContaining({
        ...stands,
        madeBefore: expect.any(String),
        result: { cancelled: 'o-1', receipt: 'r-1' },
      }),
    ]);
    expect(sent().at(-1)?.[1]).toMatch(/was made before.*\n\{"cancelled":"o-1"/s);
  });

  it('is not made again by a call that says the same in another order, and leaves other calls alone', async () => {
    const { cancelled } = await regenerated([
      calls(call('orders__cancel', { id: 'o-2' })),
      text('Done.'),
    ]);
    expect(cancelled).toEqual(['o-1', 'o-2']);
  });

  it('is made again once a later message asks for it', async () => {
    const { cancelled, say } = await regenerated([
      text('It stands.'),
      calls(cancel()),
      text('Done again.'),
    ]);
    await say({ prompt: 'Cancel it once more.' });
    expect(cancelled).toEqual(['o-1', 'o-1']);
  });

  it('stands as well if the answer is taken back twice, or the one that took its place failed', async () => {
    const shop = await desk([
      calls(cancel()),
      text('A'),
      fails(new ModelError('down')),
      calls(cancel()),
      text('C'),
      calls(cancel()),
      text('D'),
    ]);
    const first = await shop.say({ prompt: 'Cancel it.', messageId: 'm1' });
    const cut = { at: [first.runId, 'm1'] };
    await expect(shop.say({ prompt: 'Cancel it.', messageId: 'm1', cut })).rejects.toThrow(
      'could not answer',
    );
    const third = await shop.say({ prompt: 'Cancel it.', messageId: 'm1', cut: { at: ['m1'] } });
    await shop.say({ prompt: 'Cancel it.', messageId: 'm1', cut: { at: [third.runId] } });
    expect(shop.cancelled).toEqual(['o-1']);
    expect(texts(await shop.kept()).at(-1)).toBe('assistant: D');
  });

  it('stands in a run that waits and is resumed', async () => {
    const rules: Policy = { ...OPEN, requireApproval: [{ tools: ['orders__ship'] }] };
    const shop = await desk(
      [calls(cancel()), text('A'), calls(ship()), calls(cancel()), text('B')],
      { policy: rules },
    );
    const { runId } = await shop.say();
    const waiting = await shop.say({ cut: { at: [runId] } });
    const [open] = await shop.inbox.inbox(alice);
    await shop.inbox.decide({ approvalId: open?.id ?? '', decision: 'deny' }, alice);
    await (
      await shop.loop.resume(waiting.runId, alice)
    ).result;
    expect(shop.cancelled).toEqual(['o-1']);
  });

  it('is told to the model behind other words too, and is no call of them', async () => {
    const { sent, cancelled } = await regenerated([text('Order o-1 is cancelled already.')], {
      prompt: 'Cancel order o-2 instead.',
    });
    expect(sent()[1]).toEqual(['user', 'Cancel order o-2 instead.']);
    expect(cancelled).toEqual(['o-1']);
  });
});

describe('what an answer that is taken back left open', () => {
  it('is withdrawn: its run is over, and no yes counts any more', async () => {
    const { say, inbox, runs, kept, cancelled } = await desk(
      [calls(cancel()), text('Never mind.')],
      { policy: ASKS },
    );
    const first = await say();
    const [open] = await inbox.inbox(alice);
    await say({ prompt: 'Leave it.', cut: { at: [first.runId] } });
    expect(await inbox.inbox(alice)).toEqual([]);
    await expect(
      inbox.decide({ approvalId: open?.id ?? '', decision: 'approve' }, alice),
    ).rejects.toThrow('nothing to decide');
    expect(await runs.get(first.runId, alice)).toMatchObject({
      status: 'ended',
      finishReason: 'aborted',
    });
    expect([cancelled, texts(await kept())]).toEqual([
      [],
      ['user: Leave it.', 'assistant: Never mind.'],
    ]);
  });

  it('is cancelled if it is a directive that has not begun, and the audit keeps it', async () => {
    const { say, directives, sent, shipped, audit } = await desk(
      [calls(ship()), text('It will be shipped.'), text('Not shipped.')],
      {
        performs: false,
      },
    );
    const first = await say({ prompt: 'Ship it.' });
    await say({ prompt: 'Leave it.', cut: { at: [first.runId] } });
    const [directive] = await directives.list(alice);
    expect([directive?.status, shipped, sent()]).toEqual([
      'cancelled',
      [],
      [['user', 'Leave it.']],
    ]);
    const entries = await audit.read('acme', { from: 1, limit: 100 });
    expect(entries.map(({ kind }) => kind)).toContain('directive-cancelled');
  });

  it('is cancelled first if it is under way, and keeps no place', async () => {
    const [begun, began] = signal();
    const { loop, say, kept } = await desk([calls(cancel()), text('A'), text('B')], {
      before: () => {
        began();
        return new Promise((resolve) => setTimeout(resolve, 5));
      },
    });
    const handle = loop.open(ask({ conversationId, prompt: 'Cancel it.', messageId: 'm1' }));
    const ended = resultOf(handle);
    await begun;
    const answered = await say({ prompt: 'Leave it.', messageId: 'm1', cut: { at: ['m1'] } });
    expect([(await ended).finishReason, answered.finishReason]).toEqual(['aborted', 'stop']);
    expect(texts(await kept()).filter((line) => line.startsWith('user'))).toEqual([
      'user: Leave it.',
    ]);
  });
});

describe('a place that is not known', () => {
  it('has nothing under way give way to it', async () => {
    const [held, release] = signal();
    const { loop, say, kept } = await desk([calls(cancel()), text('A'), text('B')], {
      before: () => held,
    });
    const first = resultOf(loop.open(ask({ conversationId, prompt: 'First?', messageId: 'm1' })));
    const second = say({ prompt: 'Second?', messageId: 'm2', cut: { at: ['m2'] } });
    setTimeout(release, 20);
    expect([(await first).finishReason, (await second).finishReason]).toEqual(['stop', 'stop']);
    expect(texts(await kept()).filter((line) => line.startsWith('user'))).toEqual([
      'user: First?',
      'user: Second?',
    ]);
  });
});

const again = (runId: string) => ({
  prompt: 'Cancel it.',
  messageId: 'm1',
  cut: { at: [runId, 'm1'] },
});

describe('two requests that take the same answer back', () => {
  it('are one if they come at once: one answers, and the others say which', async () => {
    const { say, kept, cancelled } = await desk([
      calls(cancel()),
      text('A'),
      calls(cancel()),
      text('B'),
      text('C'),
      text('D'),
    ]);
    const { runId } = await say({ prompt: 'Cancel it.', messageId: 'm1' });
    const results = await Promise.all([1, 2, 3].map(() => say(again(runId))));
    const [one, ...more] = results.filter(({ addedTo }) => addedTo === undefined);
    expect([more, results.flatMap(({ addedTo }) => addedTo ?? [])]).toEqual([
      [],
      [one?.runId, one?.runId],
    ]);
    expect(cancelled).toEqual(['o-1']);
    expect(texts(await kept()).filter((line) => line.startsWith('user'))).toEqual([
      'user: Cancel it.',
    ]);
  });

  it('are one as well if the second comes late, from a page that still shows the first answer', async () => {
    const { say } = await desk([text('A'), text('B'), text('C')]);
    const { runId } = await say({ prompt: 'Cancel it.', messageId: 'm1' });
    const second = await say(again(runId));
    expect(await say(again(runId))).toMatchObject({ addedTo: second.runId, steps: 0 });
  });

  it('are two if the words are others: the later one counts', async () => {
    const { say, kept } = await desk([text('A'), text('B'), text('C')]);
    const { runId } = await say({ messageId: 'm1' });
    await say({ prompt: 'Edited.', messageId: 'm1', cut: { at: [runId] } });
    await say({ prompt: 'Edited twice.', messageId: 'm1', cut: { at: [runId] } });
    expect(texts(await kept())).toEqual(['user: Edited twice.', 'assistant: C']);
  });
});

describe('the conversation of another person', () => {
  it.each<[string, Partial<LoopRequest>, Partial<ConversationKey>]>([
    ['of the same tenant', { actor: bob.actor }, { actorId: 'bob' }],
    ['of another tenant', { tenant: 'globex' }, { tenant: 'globex' }],
  ])('is cut by no one %s, who knows its ids', async (_, who, theirs) => {
    const { say, kept, inbox } = await desk([calls(cancel()), text('Mine.')], { policy: ASKS });
    const first = await say({ prompt: 'Cancel it.', messageId: 'm1' });
    await say({
      ...who,
      prompt: 'Mine now.',
      cut: { at: [first.runId, 'm1'], after: [first.runId] },
    });
    expect(await inbox.inbox(alice)).toHaveLength(1);
    expect(texts(await kept())[0]).toBe('user: Cancel it.');
    expect(texts(await kept(theirs))).toEqual(['user: Mine now.', 'assistant: Mine.']);
  });
});
