import { describe, expect, it } from '@jest/globals';
import { MemoryApprovalStore, MemoryCallJournal, MemoryConversationStore } from '@toolloop/core';
import { MemoryRunStore, type RunHold, type RunWrite } from '@toolloop/durable';
import { ScriptedModel, text } from '@toolloop/testing';
import { DeskProcess, type World } from './fixtures/desk.process.js';

const alice = { actor: { id: 'alice', tenant: 'acme' }, tenant: 'acme', prompt: 'Go on.' };

/** Hands out one more run after it was told to hand out none, as a queue may that had fetched it before. */
class LateRunStore extends MemoryRunStore {
  handOut: (runId: string) => Promise<void> = () => Promise.resolve();

  override work(advance: (runId: string) => Promise<void>, most: number): Promise<() => Promise<void>> {
    this.handOut = advance;
    return super.work(advance, most);
  }
}

describe('a process that shuts down', () => {
  it('leaves a run that it is handed late to others, and does not pass it over', async () => {
    const runs = new LateRunStore();
    const stores = { approvals: new MemoryApprovalStore(), journal: new MemoryCallJournal() };
    const world: World = { effects: [], open: () => Promise.resolve({ runs, stores, close: () => Promise.resolve() }) };
    const first = await DeskProcess.start(world, new ScriptedModel([]));
    await first.close();
    const opener = await DeskProcess.start(world, new ScriptedModel([]), { options: { concurrency: 0 } });
    const runId = await opener.runs.start(alice);
    await expect(runs.handOut(runId)).rejects.toThrow('shuts down');
    const other = await DeskProcess.start(world, new ScriptedModel([text('Done.')]));
    while ((await other.runs.get(runId, alice)).status !== 'ended') await new Promise((resolve) => setTimeout(resolve, 5));
    await Promise.all([opener.close(), other.close()]);
  });
});

/** Hears of no end while its process is dying. */
class DeafRunStore extends MemoryRunStore {
  isDeaf = true;

  override write(hold: RunHold, write: RunWrite): Promise<void> {
    return this.isDeaf && write.ending ? new Promise(() => undefined) : super.write(hold, write);
  }
}

describe('a process that dies when the conversation of a run is kept and its end is not', () => {
  it('leaves a run to others that ends once more, and is in the conversation once', async () => {
    const runs = new DeafRunStore();
    const conversations = new MemoryConversationStore();
    const stores = { approvals: new MemoryApprovalStore(), journal: new MemoryCallJournal(), conversations };
    const world: World = { effects: [], open: () => Promise.resolve({ runs, stores, close: () => Promise.resolve() }) };
    const key = { tenant: 'acme', actorId: 'alice', conversationId: 'c' };
    const dying = await DeskProcess.start(world, new ScriptedModel([text('The first end.')]), {
      options: { heartbeatMs: 1e9, concurrency: 0 },
    });
    const handle = dying.loop.open({ ...alice, conversationId: 'c', durable: true });
    void handle.result.catch(() => undefined);
    while ((await conversations.load(key)).length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    runs.isDeaf = false;
    const other = await DeskProcess.start(world, new ScriptedModel([text('The second end.')]), {
      options: { heartbeatMs: 20, takeoverMs: 100 },
    });
    while ((await other.runs.get(handle.runId, alice)).status !== 'ended') await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await conversations.load(key)).map(({ content }) => content)).toEqual(['Go on.', 'The second end.']);
    await other.close();
  });
});
