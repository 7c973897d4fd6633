import { describe, expect, it } from '@jest/globals';
import { MemoryConversationStore } from '../../../src/memory/memory-conversation-store.js';
import { MemoryPendingStore } from '../../../src/memory/memory-pending-store.js';
import { ResultPages } from '../../../src/plugins/pages/result-pages.js';
import { RESULT_READER } from '../../../src/plugins/pages/result-reader.js';
import type { ProcessState, SavedRun } from '../../../src/run/saved-run.js';
import { MemoryRunLog } from '../../../src/memory/memory-run-log.js';
import { SuspendedRuns } from '../../../src/run/suspended-runs.js';
import { ActorIdentity } from '../../../src/policy/actor-identity.js';

const MEGABYTE = 1024 * 1024;
const usage = { inputTokens: 0, outputTokens: 0 };
const saved: SavedRun = {
  requestId: 'r',
  sequence: 1,
  past: 0,
  state: { step: 1, messages: [], usage, records: [], text: '', corrections: 0, emptyAnswers: 0 },
  approvals: { asked: [], repeated: [], remembered: [] },
  handles: [],
  instances: [],
  sentTools: [],
  tools: { order: [], injected: [], entities: [], gone: [] },
  policies: [],
  spent: [],
};
const alice = { actor: { id: 'alice' }, tenant: 'acme' };

function stateWith(pages: ResultPages): ProcessState {
  return {
    injected: [],
    specs: [],
    removedWithRole: [],
    state: new Map(),
    results: new Map(),
    subRuns: new Map(),
    pages,
  };
}

/** Runs that wait, the oldest first, each with so many bytes of results. */
async function waiting(
  sizes: readonly number[],
): Promise<{ readonly runs: SuspendedRuns; readonly pages: readonly ResultPages[] }> {
  const runs = new SuspendedRuns(
    {
      runs: new MemoryRunLog(),
      pending: new MemoryPendingStore(),
      conversations: new MemoryConversationStore(),
    },
    new ActorIdentity({}),
  );
  const pages = sizes.map((size) => {
    const kept = new ResultPages(100 * MEGABYTE);
    kept.keep(RESULT_READER, 'x'.repeat(size));
    return kept;
  });
  for (const [index, kept] of pages.entries())
    await runs.suspend(
      { runId: `run_${index}`, tenant: 'acme', actorId: 'alice' },
      saved,
      stateWith(kept),
    );
  return { runs, pages };
}

describe('results of runs that wait', () => {
  it('are kept up to 64 MB altogether, those of the longest waiting go first', async () => {
    const { pages } = await waiting([30 * MEGABYTE, 30 * MEGABYTE, 20 * MEGABYTE]);
    expect(pages.map(({ keptBytes }) => keptBytes / MEGABYTE)).toEqual([0, 30, 20]);
    expect(() => pages[0]?.read({ handle: 'r1', offset: 0, length: 10 })).toThrow(
      'Call results__read again',
    );
  });

  it('belong to their run, once it continues, and to no other', async () => {
    const { runs, pages } = await waiting([10]);
    const found = await runs.find('run_0', alice);
    expect(found.processState?.pages).toBe(pages[0]);
    const run = { cancel: () => undefined };
    const held = await runs.claim(found, run);
    await expect(runs.claim(found, run)).rejects.toThrow('resumed elsewhere');
    await runs.end(held, 'stop');
  });
});
