import { describe, expect, it } from '@jest/globals';
import {
  MemoryAuditStore,
  MemoryCallJournal,
  MemoryPendingStore,
  MemoryRunLog,
  type RunLog,
} from '@toolloop/core/stores';
import { call, calls, text } from '@toolloop/testing';
import type { World } from './fixtures/desk.process.js';
import { alice, never, processStarter, scripted, until, untilSo } from './fixtures/durable-runs.js';

/** Longer than an interrupted run waits for a store before its reader. */
const BUSY_MS = 150;

/** A log of runs that takes its time for each write, and counts the runs that are put off. */
class BusyLog extends MemoryRunLog {
  putOffs = 0;
  written = 0;

  override async append(...write: Parameters<RunLog['append']>): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, BUSY_MS));
    await super.append(...write);
    this.written += 1;
  }

  override release(...[hold, putOff]: Parameters<RunLog['release']>): Promise<void> {
    if (putOff) this.putOffs += 1;
    return super.release(hold, putOff);
  }
}

function desk() {
  const runs = new BusyLog();
  const stores = {
    pending: new MemoryPendingStore(),
    journal: new MemoryCallJournal(),
    audit: new MemoryAuditStore(),
  };
  const world: World = {
    effects: [],
    open: () => Promise.resolve({ runs, stores, close: () => Promise.resolve() }),
  };
  return { runs, world };
}

const script = () => scripted(calls(call('desk__act', { key: 'a' })), text('Done.'));

describe('a queued run that is cancelled while its store is busy', () => {
  const start = processStarter();

  it('ends without being put off if it was cancelled before its first write was kept', async () => {
    const { runs, world } = desk();
    const process = await start(world, script());
    const runId = await process.runs.start(alice);
    await process.runs.cancel(runId, alice);
    await until(process, runId, 'ended');
    expect(await process.runs.get(runId, alice)).toMatchObject({ finishReason: 'aborted' });
    expect([runs.putOffs, world.effects]).toEqual([0, []]);
  });

  it('ends without being put off if it was cancelled in the middle of a call', async () => {
    const { runs, world } = desk();
    world.during = never;
    const process = await start(world, script());
    const runId = await process.runs.start(alice);
    await untilSo(() => runs.written > 1);
    await process.runs.cancel(runId, alice);
    await until(process, runId, 'ended');
    expect(await process.runs.get(runId, alice)).toMatchObject({ finishReason: 'aborted' });
    expect(runs.putOffs).toBe(0);
  });
});
