import { describe, expect, it } from '@jest/globals';
import {
  type AuditEntry,
  AuditStore,
  MemoryAuditStore,
  MemoryCallJournal,
  MemoryPendingStore,
  MemoryRunLog,
} from '@toolloop/core/stores';
import { call, calls, text } from '@toolloop/testing';
import type { World } from './fixtures/desk.process.js';
import { alice, carl, processStarter, scripted, until } from './fixtures/durable-runs.js';

const SECRET = 'permission denied for table audit at /var/lib/postgresql';

/** An audit that refuses until it is mended, and counts what it has refused. */
class RefusingAudit extends MemoryAuditStore {
  isMended = false;
  readonly refused: number[] = [];

  override append(...[tenant, build]: Parameters<AuditStore['append']>): void | Promise<void> {
    if (this.isMended) return super.append(tenant, build);
    this.refused.push(performance.now());
    return Promise.reject(Object.assign(new Error(SECRET), { code: '42501' }));
  }
}

function desk() {
  const audit = new RefusingAudit();
  const runs = new MemoryRunLog();
  const stores = { pending: new MemoryPendingStore(), journal: new MemoryCallJournal(), audit };
  const world: World = {
    effects: [],
    open: () => Promise.resolve({ runs, stores, close: () => Promise.resolve() }),
  };
  return { audit, runs, world };
}

const options = {
  audit: { key: 'x'.repeat(32) },
  operators: (user: unknown, action: string) => isCarl(user) && action === 'runs',
};
const isCarl = (user: unknown): boolean => (user as { readonly id: string }).id === 'carl';
const script = () => scripted(calls(call('desk__act', { key: 'a' })), text('Done.'));

describe('a durable run whose store fails before an effect', () => {
  const start = processStarter();

  it('is put off with growing pauses, ten times, and then waits until an operator resumes it, and does its work once', async () => {
    const { audit, runs, world } = desk();
    const process = await start(world, script(), { ...options, options: { pauseMs: 2 } });
    const runId = await process.runs.start(alice);
    await until(process, runId, 'waiting');
    expect(await process.runs.get(runId, alice)).toMatchObject({
      status: 'waiting',
      finishReason: 'error',
    });
    const events = await runs.events(runId, { after: 0, limit: 1_000 });
    expect(events.at(-1)).toMatchObject({
      type: 'run-end',
      finishReason: 'error',
      error: { code: 'storage_unavailable' },
    });
    expect(JSON.stringify([events, await runs.read(runId)])).not.toMatch(
      /permission denied|execution_failed|postgresql/,
    );
    expect([world.effects, audit.refused.length]).toEqual([[], 10]);
    const pauses = audit.refused.slice(1).map((at, index) => at - (audit.refused[index] ?? 0));
    expect(pauses.at(-1)).toBeGreaterThan(2 * 2 ** 7);
    audit.isMended = true;
    await process.runs.resume(runId, carl);
    await until(process, runId, 'ended');
    expect(world.effects).toEqual(['acme a']);
    const entries: readonly AuditEntry[] = await audit.read('acme', { from: 1, limit: 20 });
    expect(entries.map(({ kind }) => kind)).toEqual(['operator', 'decision', 'outcome']);
  });

  it('continues by itself where the store is mended meanwhile, and its readers see no end before its own', async () => {
    const { audit, world } = desk();
    const process = await start(world, script(), { ...options, options: { pauseMs: 2 } });
    const runId = await process.runs.start(alice);
    while (audit.refused.length < 4) await new Promise((resolve) => setTimeout(resolve, 2));
    audit.isMended = true;
    const seen: string[] = [];
    for await (const event of process.runs.read(runId, alice)) seen.push(event.type);
    expect([world.effects, seen.filter((type) => type === 'run-end')]).toEqual([
      ['acme a'],
      ['run-end'],
    ]);
  });

  it('is read to its own end by one who reads it after it was put off for good', async () => {
    const { audit, world } = desk();
    const process = await start(world, script(), { ...options, options: { pauseMs: 1 } });
    const runId = await process.runs.start(alice);
    await until(process, runId, 'waiting');
    audit.isMended = true;
    await process.runs.resume(runId, alice);
    const ends: unknown[] = [];
    for await (const event of process.runs.read(runId, alice))
      if (event.type === 'run-end') ends.push(event.finishReason);
    expect(ends).toEqual(['error', 'stop']);
  });

  it('is ended at once where it is cancelled while it is put off', async () => {
    const { audit, runs, world } = desk();
    const process = await start(world, script(), { ...options, options: { pauseMs: 100_000 } });
    const runId = await process.runs.start(alice);
    while ((await runs.find(runId))?.putOffs === undefined)
      await new Promise((resolve) => setTimeout(resolve, 2));
    await process.runs.cancel(runId, alice);
    await until(process, runId, 'ended');
    expect([world.effects, audit.refused.length]).toEqual([[], 1]);
  });

  it('tells the log each time for how long it is put off, and why', async () => {
    const { audit, world } = desk();
    const process = await start(world, script(), { ...options, options: { pauseMs: 2 } });
    const warnings: unknown[][] = [];
    process.module.useLogger({
      log: () => undefined,
      error: () => undefined,
      warn: (...said: unknown[]) => void warnings.push(said),
    });
    const runId = await process.runs.start(alice);
    while (audit.refused.length < 3) await new Promise((resolve) => setTimeout(resolve, 2));
    audit.isMended = true;
    await until(process, runId, 'ended');
    expect(warnings.slice(0, 2)).toEqual([
      [`The run ${runId} is put off for 2 ms: a store failed.`, expect.any(Error), 'RunEngine'],
      [`The run ${runId} is put off for 4 ms: a store failed.`, expect.any(Error), 'RunEngine'],
    ]);
  });

  it('counts anew once it has ended a step', async () => {
    const { audit, runs, world } = desk();
    const turns = scripted(
      calls(call('desk__act', { key: 'a' })),
      calls(call('desk__act', { key: 'b' })),
      text('Done.'),
    );
    const process = await start(world, turns, { ...options, options: { pauseMs: 1 } });
    const runId = await process.runs.start(alice);
    while (audit.refused.length < 5) await new Promise((resolve) => setTimeout(resolve, 1));
    audit.isMended = true;
    world.during = () => {
      audit.isMended = world.effects.length !== 1;
    };
    audit.refused.length = 0;
    while (audit.refused.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
    expect((await runs.find(runId))?.putOffs ?? 1).toBeLessThan(5);
    audit.isMended = true;
    await until(process, runId, 'ended');
    expect(world.effects).toEqual(['acme a', 'acme b']);
  });
});
