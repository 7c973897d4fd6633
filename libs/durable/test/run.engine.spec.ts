import { describe, expect, it } from '@jest/globals';
import { RunElsewhereError } from '@toolloop/core';
import {
  MemoryPendingStore,
  MemoryCallJournal,
  MemoryConversationStore,
  MemoryRunLog,
  type RunHold,
  type RunWrite,
} from '@toolloop/core/stores';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { DeskProcess, asking, type World } from './fixtures/desk.process.js';

const alice = { actor: { id: 'alice', tenant: 'acme' }, tenant: 'acme', prompt: 'Go on.' };

/**
 * Hands out one more run after it was told to hand out none, as a queue may that had fetched it
 * before.
 */
class LateRunLog extends MemoryRunLog {
  handOut: (runId: string) => Promise<void> = () => Promise.resolve();

  override work(
    advance: (runId: string) => Promise<void>,
    most: number,
  ): Promise<() => Promise<void>> {
    this.handOut = advance;
    return super.work(advance, most);
  }
}

describe('a process that shuts down', () => {
  it('leaves a run that it is handed late to others, and does not pass it over', async () => {
    const runs = new LateRunLog();
    const stores = { pending: new MemoryPendingStore(), journal: new MemoryCallJournal() };
    const world: World = {
      effects: [],
      open: () => Promise.resolve({ runs, stores, close: () => Promise.resolve() }),
    };
    const first = await DeskProcess.start(world, new ScriptedModel([]));
    await first.close();
    const opener = await DeskProcess.start(world, new ScriptedModel([]), {
      options: { concurrency: 0 },
    });
    const runId = await opener.runs.start(alice);
    await expect(runs.handOut(runId)).rejects.toThrow('is shutting down');
    const other = await DeskProcess.start(world, new ScriptedModel([text('Done.')]));
    while ((await other.runs.get(runId, alice)).status !== 'ended')
      await new Promise((resolve) => setTimeout(resolve, 5));
    await Promise.all([opener.close(), other.close()]);
  });
});

/** Hears of no end while its process is dying. */
class DeafRunLog extends MemoryRunLog {
  isDeaf = true;

  override append(hold: RunHold, write: RunWrite): Promise<void> {
    return this.isDeaf && write.ending ? new Promise(() => undefined) : super.append(hold, write);
  }
}

describe('a process that dies when the conversation of a run is kept and its end is not', () => {
  it('leaves a run to others that ends once more, and is in the conversation once', async () => {
    const runs = new DeafRunLog();
    const conversations = new MemoryConversationStore();
    const stores = {
      pending: new MemoryPendingStore(),
      journal: new MemoryCallJournal(),
      conversations,
    };
    const world: World = {
      effects: [],
      open: () => Promise.resolve({ runs, stores, close: () => Promise.resolve() }),
    };
    const key = { tenant: 'acme', actorId: 'alice', conversationId: 'c' };
    const dying = await DeskProcess.start(world, new ScriptedModel([text('The first end.')]), {
      options: { heartbeatMs: 1e9, takeoverMs: 100, concurrency: 0 },
    });
    const handle = dying.loop.open({ ...alice, conversationId: 'c', durable: true });
    void handle.result.catch(() => undefined);
    while ((await conversations.load(key)).length === 0)
      await new Promise((resolve) => setTimeout(resolve, 5));
    runs.isDeaf = false;
    const other = await DeskProcess.start(world, new ScriptedModel([text('The second end.')]), {
      options: { heartbeatMs: 20, takeoverMs: 100 },
    });
    while ((await other.runs.get(handle.runId, alice)).status !== 'ended')
      await new Promise((resolve) => setTimeout(resolve, 5));
    const said = (await conversations.load(key)).filter(({ role }) => role !== 'system');
    expect(said.map(({ content }) => content)).toEqual(['Go on.', 'The second end.']);
    await other.close();
  });
});

/** Has another process take a run in the very moment in which it ends, or waits. */
class StolenRunLog extends MemoryRunLog {
  private isStolen = false;

  override async append(hold: RunHold, write: RunWrite): Promise<void> {
    if (write.ending && !this.isStolen) {
      this.isStolen = true;
      await this.renew([hold], 0);
      await this.acquire(hold.runId, { owner: 'another', forMs: 60_000 });
    }
    return super.append(hold, write);
  }
}

/**
 * Answers late that it has kept the end of a run, so that its process tells of a run meanwhile that
 * is over.
 */
class LateAnswerRunLog extends MemoryRunLog {
  override async append(hold: RunHold, write: RunWrite): Promise<void> {
    await super.append(hold, write);
    if (write.ending) await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function worldOf(runs: MemoryRunLog): World {
  const stores = { pending: new MemoryPendingStore(), journal: new MemoryCallJournal() };
  return {
    effects: [],
    open: () => Promise.resolve({ runs, stores, close: () => Promise.resolve() }),
  };
}

describe('the end of a run', () => {
  it.each([
    ['ends', undefined, text('Zombie.')],
    ['waits', asking, calls(call('desk__act', { key: 'a' }))],
  ] as const)(
    'is not told by a process from which the run was taken as it %s',
    async (_, policy, turn) => {
      const options = { concurrency: 0, heartbeatMs: 1e9 };
      const desk = await DeskProcess.start(worldOf(new StolenRunLog()), new ScriptedModel([turn]), {
        ...(policy && { policy }),
        options,
      });
      const handle = desk.loop.open({ ...alice, durable: true });
      const seen: string[] = [];
      handle.events$.subscribe(({ type }) => seen.push(type));
      await expect(handle.result).rejects.toThrow(RunElsewhereError);
      expect(seen).not.toContain('run-end');
      await desk.close();
    },
  );

  it('is told where it was kept, though the run was looked for in vain in that moment', async () => {
    const desk = await DeskProcess.start(
      worldOf(new LateAnswerRunLog()),
      new ScriptedModel([text('Done.')]),
      {
        options: { heartbeatMs: 5 },
      },
    );
    expect(await desk.loop.run({ ...alice, durable: true })).toMatchObject({
      finishReason: 'stop',
    });
    await desk.close();
  });
});
