import { describe, expect, it } from '@jest/globals';
import {
  type LoopEvent,
  type LoopRequest,
  PendingService,
  type Policy,
  type RunHandle,
  ToolLoopService,
} from '@toolloop/core';
import { ConversationStore, MemoryConversationStore } from '@toolloop/core/stores';
import { call, calls, hangs, ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import { type ConversationTurn } from '../../../src/plugins/conversations/conversation-turn.js';
import { ConversationTurns } from '../../../src/plugins/conversations/conversation-turns.js';
import { ask, openModule, type ShopOptions } from '../../fixtures/shop.module.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const conversationId = 'c1';
const read = calls(call('probe__read', { key: 'a' }));
const write = calls(call('probe__write', { key: 'a' }));
const policy: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ tools: ['probe__write'] }],
};

/** A tool that stays in its call until the test lets it go. */
function gate() {
  let [enter, leave] = [(): void => undefined, (): void => undefined];
  const entered = new Promise<void>((resolve) => (enter = resolve));
  const left = new Promise<void>((resolve) => (leave = resolve));
  const act = async (): Promise<string> => {
    enter();
    await left;
    return 'found';
  };
  return { entered, leave: () => leave(), context: { act } };
}

async function desk(
  script: readonly ScriptedTurn[],
  options: ShopOptions = {},
  store: ConversationStore = new MemoryConversationStore(),
) {
  const model = new ScriptedModel(script);
  const module = await openModule(model, {
    policy,
    ...options,
    providers: [{ provide: ConversationStore, useValue: store }],
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const inbox: PendingService = module.get(PendingService);
  const say = (prompt: string, more: Partial<LoopRequest> = {}): RunHandle =>
    loop.open(ask({ conversationId, prompt, ...more }));
  const seen = (index: number) =>
    (model.requests[index]?.messages ?? []).map(({ role, content }) =>
      role === 'tool' ? role : content,
    );
  return { model, loop, inbox, say, seen };
}

/** Collects the events of a run, and tells when one of a type comes. */
function followed(run: RunHandle, type: LoopEvent['type']) {
  const events: LoopEvent[] = [];
  const come = new Promise<void>((resolve) =>
    run.events$.subscribe({
      next: (event) => {
        events.push(event);
        if (event.type === type) resolve();
      },
      complete: resolve,
    }),
  );
  return { events, come, result: run.result };
}

const runOf = (runId: string) => ({
  runId,
  isDurable: true,
  cancel: () => undefined,
  names: [runId],
  takeIn: () => Promise.resolve(false),
});
const endOf = (turn: ConversationTurn | string): Promise<void> | undefined =>
  typeof turn === 'string' ? undefined : turn.end(false);

const types = (events: readonly LoopEvent[]) =>
  events.map((event) => (event.type === 'warning' ? event.code : event.type));

describe('the turns of a conversation', () => {
  it('are taken in order: a second message is queued, and then reads what the first one led to', async () => {
    const { entered, leave, context } = gate();
    const { say, seen, model } = await desk([read, text('One.'), text('Two.'), text('Three.')]);
    const first = say('First.', { context }).result;
    await entered;
    const second = followed(say('Second.'), 'warning');
    await second.come;
    const third = say('Third.').result;
    expect([types(second.events), model.requests.length]).toEqual([
      ['run-start', 'conversation_busy'],
      1,
    ]);
    leave();
    expect([(await first).text, (await second.result).text, (await third).text]).toEqual([
      'One.',
      'Two.',
      'Three.',
    ]);
    expect(seen(2)).toEqual(['First.', '', 'tool', 'One.', 'Second.']);
    expect(seen(3).slice(-3)).toEqual(['Second.', 'Two.', 'Third.']);
  });

  it.each<[string, Partial<LoopRequest>]>([
    ['another conversation', { conversationId: 'c2' }],
    ['another actor', { actor: { id: 'bob' } }],
    ['another tenant', { tenant: 'globex' }],
    ['no conversation', { conversationId: undefined }],
  ])('do not hold up a run of %s', async (_, other) => {
    const { entered, leave, context } = gate();
    const { say } = await desk([read, text('Two.'), text('One.')]);
    const first = say('First.', { context }).result;
    await entered;
    expect(await say('Second.', other).result).toMatchObject({ text: 'Two.' });
    leave();
    expect(await first).toMatchObject({ text: 'One.' });
  });

  it('are given on by a run that is cancelled, and lost by one that is cancelled while it is queued', async () => {
    const { say } = await desk([hangs(), text('Last.')]);
    const first = say('First.');
    const begun = followed(first, 'step-start');
    await begun.come;
    const [queued, last] = [say('Queued.'), say('Last.')];
    const [isQueuedOver, answer] = [queued.result.catch((error: unknown) => error), last.result];
    queued.cancel();
    expect(await isQueuedOver).toMatchObject({ result: { finishReason: 'aborted', steps: 0 } });
    first.cancel();
    expect(await begun.result.catch((error: unknown) => error)).toMatchObject({
      result: { finishReason: 'aborted' },
    });
    expect(await answer).toMatchObject({ text: 'Last.' });
  });

  it('end a queued run by its own limit of time', async () => {
    const { say } = await desk([hangs()]);
    const first = say('First.');
    const begun = followed(first, 'step-start');
    await begun.come;
    expect(await say('Second.', { limits: { runMs: 30 } }).result).toMatchObject({
      finishReason: 'timeout',
      steps: 0,
    });
    first.cancel();
    await begun.result.catch(() => undefined);
  });

  it('are held among processes: one run waits for the lease that another process has', async () => {
    const store = new MemoryConversationStore();
    const [one, other] = [await desk([hangs()], {}, store), await desk([text('Two.')], {}, store)];
    const first = one.say('First.');
    const begun = followed(first, 'step-start');
    await begun.come;
    const second = followed(other.say('Second.'), 'text-delta');
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(types(second.events)).toEqual(['run-start']);
    first.cancel();
    await begun.result.catch(() => undefined);
    expect(await second.result).toMatchObject({ text: 'Two.' });
  });

  it('pass on where the process of a run has died', async () => {
    const store = new MemoryConversationStore();
    await store.claim(
      { tenant: 'acme', actorId: 'alice', conversationId },
      { owner: 'a run that is gone', forMs: 40 },
    );
    const { say } = await desk([text('One.')], {}, store);
    expect(await say('First.').result).toMatchObject({ text: 'One.' });
  });

  it('are those of a run that another process continues, also where others wait for them there', async () => {
    const store = new MemoryConversationStore();
    const key = { tenant: 'acme', actorId: 'alice', conversationId };
    await store.claim(key, { owner: 'continued', forMs: 600_000 }); // by a process that is gone
    const turns = new ConversationTurns(store);
    const { signal } = new AbortController();
    const order: string[] = [];
    const queued = turns
      .take(key, runOf('queued'), { signal })
      .then((turn) => (order.push('queued'), turn));
    const continued = await turns.take(key, runOf('continued'), { signal, isContinued: true });
    order.push('continued');
    await Promise.all([continued, queued].map(async (turn) => endOf(await turn)));
    expect(order).toEqual(['continued', 'queued']);
    expect(turns.isTaken(key)).toBe(false);
  });

  it('ask one person once where two runs want the same call at the same moment', async () => {
    const { say, inbox } = await desk([write, write, text('It waits.')]);
    const results = await Promise.all([say('First.').result, say('Second.').result]);
    expect(results.map(({ finishReason }) => finishReason)).toEqual(['waiting', 'stop']);
    expect(await inbox.inbox(alice)).toHaveLength(1);
  });

  it('wait for a run under way before one that waited is resumed', async () => {
    const { entered, leave, context } = gate();
    const { say, loop, inbox, seen } = await desk([
      write,
      read,
      text('Two.'),
      text('One.'),
      text('Three.'),
    ]);
    const { runId } = await say('First.').result;
    const [asked] = await inbox.list(alice);
    await inbox.decide({ approvalId: asked?.approvalId ?? '', decision: 'approve' }, alice);
    const second = say('Second.', { context }).result;
    await entered;
    const resumed = (await loop.resume(runId, { ...alice, context: { act: () => 'made' } })).result;
    leave();
    expect([(await second).text, (await resumed).text]).toEqual(['Two.', 'One.']);
    await say('Third.').result;
    expect(seen(4)).toEqual([
      'First.',
      '',
      'tool',
      'One.',
      'Second.',
      '',
      'tool',
      'Two.',
      'Third.',
    ]);
  });
});

/**
 * Tells when something was left for a run, and tells the run nothing of it, as to one that ends
 * before it looks.
 */
class UnreadStore extends MemoryConversationStore {
  private noteInput = (): void => undefined;
  readonly hasInput = new Promise<void>((resolve) => (this.noteInput = resolve));

  override leave(
    ...given: Parameters<MemoryConversationStore['leave']>
  ): Promise<string | undefined> {
    this.noteInput();
    return super.leave(...given);
  }

  override left(): Promise<readonly never[]> {
    return Promise.resolve([]);
  }
}

describe('a message with `whenBusy: addInput`', () => {
  const whenBusy = 'addInput';

  it('goes in to the run under way, and its own run says to which', async () => {
    const { entered, leave, context } = gate();
    const { say, seen, model } = await desk([read, text('Both.'), text('Next.')]);
    const first = say('First.', { context });
    const answer = first.result;
    await entered;
    const second = followed(say('Second.', { whenBusy }), 'run-end');
    expect(await second.result).toMatchObject({
      finishReason: 'stop',
      text: '',
      steps: 0,
      addedTo: first.runId,
    });
    expect(types(second.events)).toEqual(['run-start', 'run-end']);
    expect(second.events.at(-1)).toMatchObject({ addedTo: first.runId });
    leave();
    expect(await answer).toMatchObject({ text: 'Both.' });
    expect(seen(1)).toEqual(['First.', '', 'tool', 'Second.']);
    expect((await say('Third.', { whenBusy }).result).addedTo).toBeUndefined();
    expect([seen(2), model.requests.length]).toEqual([
      ['First.', '', 'tool', 'Second.', 'Both.', 'Third.'],
      3,
    ]);
  });

  it('goes in to the run under way in another process, once, and what comes as that ends is queued', async () => {
    const store = new MemoryConversationStore();
    const { entered, leave, context } = gate();
    const one = await desk([read, text('Both.')], {}, store);
    const other = await desk([text('Late.')], {}, store);
    const first = one.say('First.', { context });
    const answer = first.result;
    await entered;
    const second = followed(other.say('Second.', { whenBusy }), 'run-end');
    expect(await second.result).toMatchObject({
      finishReason: 'stop',
      text: '',
      steps: 0,
      addedTo: first.runId,
    });
    const elsewhere = { actor: { id: 'bob' } };
    expect((await other.say('Theirs.', { whenBusy, ...elsewhere }).result).addedTo).toBeUndefined();
    leave();
    expect(await answer).toMatchObject({ text: 'Both.' });
    expect([one.seen(1), one.model.requests.length]).toEqual([
      ['First.', '', 'tool', 'Second.'],
      2,
    ]);
    expect(types(second.events)).toEqual(['run-start', 'run-end']);
  });

  it('is queued where the run under way in another process ends before it has taken it, and said once', async () => {
    const store = new UnreadStore();
    const { entered, leave, context } = gate();
    const [one, other] = [
      await desk([read, text('One.')], {}, store),
      await desk([text('Two.')], {}, store),
    ];
    const first = one.say('First.', { context }).result;
    await entered;
    const second = other.say('Second.', { whenBusy }).result;
    await store.hasInput;
    leave();
    expect([(await first).text, (await second).text]).toEqual(['One.', 'Two.']);
    expect(other.seen(0)).toEqual(['First.', '', 'tool', 'One.', 'Second.']);
  });

  it.each<[string, Partial<LoopRequest>]>([
    ['another actor', { actor: { id: 'bob' } }],
    ['another tenant', { tenant: 'globex' }],
  ])('is queued where it is of %s, whatever id they know', async (_, other) => {
    const { entered, leave, context } = gate();
    const { say, seen } = await desk([read, text('Mine.'), text('Theirs.')]);
    const first = say('First.', { context }).result;
    await entered;
    expect((await say('Second.', { whenBusy, ...other }).result).addedTo).toBeUndefined();
    leave();
    await first;
    expect(seen(1)).toEqual(['Second.']);
  });

  it.each<[string, Partial<LoopRequest>, Partial<LoopRequest>]>([
    ['to be rehearsed', {}, { rehearse: true }],
    [
      'not to be rehearsed as the run under way is, whose words no conversation keeps',
      { rehearse: true },
      {},
    ],
    ['private, and the words of the run under way are public', { labels: { reads: 'public' } }, {}],
  ])('is queued where it is %s', async (_, first, second) => {
    const { entered, leave, context } = gate();
    const { say } = await desk([read, text('One.'), text('Two.')]);
    const answer = say('First.', { context, ...first }).result;
    await entered;
    const other = say('Second.', { whenBusy, ...second }).result;
    leave();
    expect([(await answer).text, (await other).text, (await other).addedTo]).toEqual([
      'One.',
      'Two.',
      undefined,
    ]);
  });

  it('is queued where it is more than text', async () => {
    const { entered, leave, context } = gate();
    const { say } = await desk([read, text('One.'), text('Two.')]);
    const first = say('First.', { context }).result;
    await entered;
    const content = [{ type: 'text', text: 'Second.' }] as const;
    const second = say('', {
      whenBusy,
      prompt: undefined,
      messages: [{ role: 'user', content }],
    }).result;
    leave();
    expect([(await first).text, (await second).text]).toEqual(['One.', 'Two.']);
  });
});
