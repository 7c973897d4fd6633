import { describe, expect, it } from '@jest/globals';
import { MemoryApprovalStore, MemoryCallJournal } from '@toolloop/core';
import { MemoryRunStore } from '@toolloop/durable';
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
