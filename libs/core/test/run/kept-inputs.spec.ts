import { describe, expect, it } from '@jest/globals';
import {
  type LoopRequest,
  type Message,
  RunElsewhereError,
  type RunHandle,
  ToolLoopService,
} from '@toolloop/core';
import { type RunEntry, RunOpener } from '@toolloop/core/internal';
import { ConversationStore, MemoryConversationStore } from '@toolloop/core/stores';
import {
  ScriptedModel,
  call,
  calls,
  expectTranscriptValid,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { LoopRun } from '../../src/run/loop-run.js';
import { ask, openModule } from '../fixtures/shop.module.js';
import { KeptJournal } from '../plugins/sub-runs/kept-journal.js';

/**
 * By the transcript alone: three answers, the first of which is overtaken where somebody has added
 * something.
 */
const turn: ScriptedTurn = ({ messages }) => {
  const answers = messages.filter(({ role }) => role === 'assistant').length;
  return (
    [
      calls(call('probe__read', { key: 'a' })),
      calls(call('probe__read', { key: 'b' })),
      text('Done.'),
    ][answers] ?? text('Done again.')
  );
};

async function opened(
  journal: KeptJournal,
  request: Partial<LoopRequest> = {},
): Promise<RunHandle> {
  const module = await openModule(new ScriptedModel(Array.from({ length: 9 }, () => turn)));
  const entries = [...journal.entries];
  return module
    .get<RunOpener>(RunOpener)
    .openDurable(ask(request), { runId: 'run-1', loop: undefined, journal, entries });
}

const inputsIn = (messages: readonly Message[]): unknown[] =>
  messages.filter(({ role }) => role === 'user').map(({ content }) => content);

describe('what a user adds to a run that is written down', () => {
  it('is kept when it is given, and is in the transcript once, whichever process continues after whichever entry', async () => {
    const whole = new KeptJournal();
    const given: Record<string, string> = { a: 'While a.', b: 'While b.' };
    const context = { act: (key: string) => (handle.addInput(given[key] ?? ''), `${key} done`) };
    const handle: RunHandle = await opened(whole, { context });
    handle.addInput('At once.');
    const { messages } = await handle.result;
    expect(inputsIn(messages)).toEqual(['Go on.', 'At once.', 'While a.', 'While b.']);
    const entries: readonly RunEntry[] = whole.flush();
    const keys = entries.map(({ key }) => key);
    for (let cut = 1; cut < entries.length; cut += 1) {
      const kept = keys.slice(0, cut).filter((key) => key.startsWith('input:')).length;
      const gone = await opened(new KeptJournal(entries.slice(0, cut)), {
        context: { act: (key: string) => `${key} done` },
      });
      const result = await gone.result;
      expectTranscriptValid(result.messages);
      expect([keys[cut - 1], inputsIn(result.messages)]).toEqual([
        keys[cut - 1],
        inputsIn(messages).slice(0, 1 + kept),
      ]);
    }
  });

  it('stays counted in the next process', async () => {
    const journal = new KeptJournal();
    const context = {
      act: (key: string) => (handle.addInput('One.'), (journal.isOurs = false), `${key} done`),
    };
    const handle: RunHandle = await opened(journal, { context });
    await expect(handle.result).rejects.toThrow(RunElsewhereError);
    journal.isOurs = true;
    const next: RunHandle = await opened(journal, {
      context: { act: (key: string) => (next.addInput('Two.'), `${key} done`) },
    });
    const { messages } = await next.result;
    expect(inputsIn(messages)).toEqual(['Go on.', 'One.', 'Two.', 'Two.']);
    expect(
      journal
        .flush()
        .map(({ key }) => key)
        .filter((key) => key.startsWith('input:')),
    ).toEqual(['input:1', 'input:2', 'input:3']);
  });

  it('is not taken by a process that the run has left', async () => {
    const journal = new KeptJournal();
    const handle = await opened(journal);
    journal.isOurs = false;
    expect(() => handle.addInput('Too late.')).toThrow(RunElsewhereError);
  });
});

async function process(store: ConversationStore) {
  const providers = [{ provide: ConversationStore, useValue: store }];
  const module = await openModule(new ScriptedModel(Array.from({ length: 9 }, () => turn)), {
    providers,
  });
  const opener = module.get<RunOpener>(RunOpener);
  const durable = (runId: string, request: Partial<LoopRequest>, journal = new KeptJournal()) =>
    opener.openDurable(ask(request), {
      runId,
      loop: undefined,
      journal,
      entries: [...journal.entries],
    });
  const plain = (request: Partial<LoopRequest>) =>
    module.get<ToolLoopService>(ToolLoopService).open(ask(request));
  return { durable, plain };
}

describe('what a run of the same conversation says to one that is written down', () => {
  const conversationId = 'c1';
  const said = { prompt: 'Second.', conversationId, whenBusy: 'addInput' } as const;

  it('is kept with the id of who says it, so that a process which continues the run does not take it once more', async () => {
    const store = new MemoryConversationStore();
    const [one, other] = [await process(store), await process(store)];
    const journal = new KeptJournal();
    const second = one.plain(said);
    const left = { id: second.runId, texts: ['Second.'] };
    const act = async (key: string) => (
      key === 'a' && (await second.result, (journal.isOurs = false)),
      `${key} done`
    );
    await expect(
      one.durable('r', { conversationId, context: { act } }, journal).result,
    ).rejects.toThrow(RunElsewhereError);
    expect(await second.result).toMatchObject({ addedTo: 'r', steps: 0 });
    expect(journal.entries.at(-1)).toEqual({
      type: 'input',
      key: 'input:1',
      number: 1,
      content: 'Second.',
      from: left.id,
    });
    journal.isOurs = true;
    const takesAgain = {
      act: async (key: string) =>
        `${key} done, ${String(next instanceof LoopRun && (await next.conversation?.takeIn(left)))}`,
    };
    const next: RunHandle = other.durable('r', { conversationId, context: takesAgain }, journal);
    const { messages } = await next.result;
    expect(inputsIn(messages)).toEqual(['Go on.', 'Second.']);
    expect(JSON.stringify(messages)).toContain('b done, true');
  });

  it('is taken once, however often a durable run that says it begins anew', async () => {
    const { durable, plain } = await process(new MemoryConversationStore());
    const addedTo: unknown[] = [];
    const act = async (key: string) => (
      addedTo.push((await durable('x', said).result).addedTo),
      `${key} done`
    );
    const first: RunHandle = plain({ conversationId, context: { act } });
    expect(inputsIn((await first.result).messages)).toEqual(['Go on.', 'Second.']);
    expect(addedTo).toEqual([first.runId, first.runId]);
    expect(await durable('x', said).result).toMatchObject({ addedTo: first.runId, steps: 0 });
    expect((await durable('y', said).result).addedTo).toBeUndefined();
  });

  it('goes in to a durable run of another process from a durable one', async () => {
    const store = new MemoryConversationStore();
    const [one, other] = [await process(store), await process(store)];
    const addedTo: unknown[] = [];
    const act = async (key: string) => (
      addedTo.push((await other.durable('x', said).result).addedTo),
      `${key} done`
    );
    const { messages } = await one.durable('r', { conversationId, context: { act } }).result;
    expect([inputsIn(messages), addedTo]).toEqual([
      ['Go on.', 'Second.'],
      ['r', 'r'],
    ]);
  });

  it('is not taken by a run that has no journal yet, or none any more, since the next process would not know of it', async () => {
    const { durable } = await process(new MemoryConversationStore());
    const journal = new KeptJournal();
    const left = { id: 'x', texts: ['Second.'] };
    const taken: unknown[] = [];
    const act = async (key: string) => {
      journal.isOurs = key === 'a';
      taken.push(run instanceof LoopRun && (await run.conversation?.takeIn(left)));
      return `${key} done`;
    };
    const run: RunHandle = durable('r', { conversationId, context: { act } }, journal);
    taken.push(run instanceof LoopRun && (await run.conversation?.takeIn(left)));
    await expect(run.result).rejects.toThrow(RunElsewhereError);
    expect(taken).toEqual([false, true, false]);
  });
});
