import { expect, it } from '@jest/globals';
import type { Limits, Policy } from '@toolloop/core';
import type { RunEntry } from '@toolloop/core/internal';
import {
  MemoryPendingStore,
  MemoryCallJournal,
  MemoryRunLog,
  type RunHold,
  type RunWrite,
} from '@toolloop/core/stores';
import { ScriptedModel, call, calls, text, type ScriptedCall } from '@toolloop/testing';
import { onEachDatabase } from './each-database.js';
import { DeskProcess, allowAll, type World } from './fixtures/desk.process.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
const STEPS = 40;
const alice = { actor: { id: 'alice', tenant: 'acme' }, tenant: 'acme', prompt: 'Go on.' };

/** Notes what is written, in the order in which it is. */
class NotedRunLog extends MemoryRunLog {
  readonly entriesWritten: RunEntry[] = [];

  override append(hold: RunHold, write: RunWrite): Promise<void> {
    this.entriesWritten.push(...write.entries);
    return super.append(hold, write);
  }
}

async function written(tool: string): Promise<readonly RunEntry[]> {
  const runs = new NotedRunLog();
  const stores = { pending: new MemoryPendingStore(), journal: new MemoryCallJournal() };
  const world: World = {
    effects: [],
    open: () => Promise.resolve({ runs, stores, close: () => Promise.resolve() }),
  };
  const turns = Array.from({ length: STEPS }, (_, step) =>
    calls(call(tool, { key: `key ${String(step + 10)}` })),
  );
  const process = await DeskProcess.start(world, new ScriptedModel([...turns, text('Done.')]));
  await process.loop.run({
    ...alice,
    limits: { steps: STEPS + 2, callsPerTool: STEPS },
    durable: true,
  });
  await process.close();
  return runs.entriesWritten;
}

it('writes as much for a late step as for an early one', async () => {
  const entries = await written('desk__look');
  const sizeOf = (key: string): number =>
    JSON.stringify(entries.find((entry) => entry.key === key)).length;
  expect(sizeOf(`step:${STEPS - 1}`)).toBeLessThan(sizeOf('step:10') + 20);
});

it('does not write the result of a read beside the step that has ended with it', async () => {
  const keys = (await written('desk__look')).map(({ key }) => key);
  expect(keys.filter((key) => key.startsWith('step:')).length).toBeGreaterThan(30);
  expect(keys.filter((key) => key.startsWith('tool:')).length).toBeLessThan(5);
});

it('writes the result of a call that changes things before the step ends', async () => {
  const keys = (await written('desk__act')).map(({ key }) => key);
  expect(keys.filter((key) => key.startsWith('tool:')).length).toBe(STEPS);
});

interface KeptRun {
  readonly keys: readonly string[];
  readonly effects: readonly string[];
}

/**
 * The keys of the entries that a run has kept; it is `interrupted` by the death of its process
 * within its last call.
 */
async function keptKeys(interrupted: boolean): Promise<KeptRun> {
  const runs = new MemoryRunLog();
  const stores = { pending: new MemoryPendingStore(), journal: new MemoryCallJournal() };
  const world: World = {
    effects: [],
    open: () => Promise.resolve({ runs, stores, close: () => Promise.resolve() }),
  };
  if (interrupted) world.during = (key) => (key === 'd' ? new Promise(() => undefined) : undefined);
  const turns = [
    calls(look('a'), act('b')),
    calls(look('a'), act('c'), call('desk__keyed', { key: 'd' })),
    text('Done.'),
  ];
  // On a busy machine a heartbeat is late: only a process that is dead is to be taken over.
  const takeoverMs = interrupted ? 100 : 60_000;
  const options = { ...(interrupted && { heartbeatMs: 1e9, concurrency: 0 }), takeoverMs };
  const first = await DeskProcess.start(world, new ScriptedModel(turns), { options });
  const handle = first.loop.open({ ...alice, durable: true });
  handle.addInput('And be quick.');
  void handle.result.catch(() => undefined);
  if (interrupted)
    while (world.effects.length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
  delete world.during;
  const other = await DeskProcess.start(world, new ScriptedModel([text('Done.')]), {
    options: { heartbeatMs: 20, takeoverMs },
  });
  while ((await other.runs.get(handle.runId, alice)).status !== 'ended')
    await new Promise((resolve) => setTimeout(resolve, 5));
  const keys = (await runs.read(handle.runId)).map(({ key }) => key);
  await Promise.all([first.close(), other.close()]);
  return { keys, effects: world.effects.map((effect) => effect.slice(0, 6)) };
}

const KEPT = ['begin', 'input:1', 'step:1', 'step:2', expect.stringMatching(/^end:3:/)];

it('keeps of a step that has ended no more than its end, from which a run may be forked', async () => {
  expect(await keptKeys(false)).toEqual({
    keys: expect.arrayContaining(KEPT),
    effects: ['acme b', 'acme c', 'keyed '],
  });
  expect((await keptKeys(false)).keys).toHaveLength(KEPT.length);
});

it('keeps no more of a step whose process died, once another process has ended it', async () => {
  const { keys, effects } = await keptKeys(true);
  expect(keys).toEqual(expect.arrayContaining(KEPT));
  expect(keys).toHaveLength(KEPT.length);
  expect(effects).toEqual(['acme b', 'acme c', 'keyed ']);
});

interface Forked {
  readonly limits?: Partial<Limits>;
  readonly budgets?: Policy['runBudgets'];
}

/**
 * The steps of a run, and then those of one that goes off from its last: how that ended, and which
 * of its results were errors.
 */
async function forked(
  before: readonly ScriptedCall[],
  after: readonly ScriptedCall[],
  { limits, budgets }: Forked,
) {
  const runs = new MemoryRunLog();
  const stores = { pending: new MemoryPendingStore(), journal: new MemoryCallJournal() };
  const world: World = {
    effects: [],
    open: () => Promise.resolve({ runs, stores, close: () => Promise.resolve() }),
  };
  const model = new ScriptedModel([
    ...before.map((one) => calls(one)),
    text('Done.'),
    ...after.map((one) => calls(one)),
    text('Done.'),
  ]);
  const process = await DeskProcess.start(world, model, {
    policy: { ...allowAll, ...(budgets && { runBudgets: budgets }) },
  });
  const { runId } = await process.loop.run({ ...alice, ...(limits && { limits }), durable: true });
  const other = await process.runs.fork(runId, before.length, alice);
  while ((await process.runs.get(other, alice)).status !== 'ended')
    await new Promise((resolve) => setTimeout(resolve, 5));
  const events = await runs.events(other, { after: 0, limit: 1_000 });
  const failed = events.flatMap((one) =>
    one.type === 'tool-result' ? [one.record.error !== undefined] : [],
  );
  const { finishReason } = await process.runs.get(other, alice);
  await process.close();
  return { finishReason, failed };
}

const look = (key: string): ScriptedCall => call('desk__look', { key });
const act = (key: string): ScriptedCall => call('desk__act', { key });

it('knows in another process how often each call was made', async () => {
  const again = await forked([look('a'), look('a'), look('b')], [look('a')], {
    limits: { identicalCalls: 2 },
  });
  expect(again).toEqual({ finishReason: 'no_progress', failed: [true] });
});

it('knows in another process how often each tool was called', async () => {
  const again = await forked([look('a'), act('b')], [look('c'), look('d')], {
    limits: { callsPerTool: 2 },
  });
  expect(again).toEqual({ finishReason: 'max_calls', failed: [false, true] });
});

it('knows in another process what the run has used of its budgets, once', async () => {
  const budgets = [{ tools: ['desk__look'], calls: 2 }];
  const again = await forked([look('a'), act('b')], [look('c'), look('d')], { budgets });
  expect(again.failed).toEqual([false, true]);
});

onEachDatabase('the row of a run', (open) => {
  it('has no index over what every write changes, so that none is written', async () => {
    const rows = await open().query<{ column: string }>(
      `select distinct a.attname as column from pg_index i
       join pg_attribute a on a.attrelid = i.indrelid
         and (a.attnum = any(i.indkey) or pg_get_expr(i.indpred, i.indrelid) like '%' || a.attname || '%')
       where i.indrelid = 'toolloop.runs'::regclass and a.attnum > 0`,
    );
    const columns = rows.map(({ column }) => column);
    expect(columns).toContain('status');
    for (const changed of ['expires_at', 'updated_at', 'last_sequence'])
      expect(columns).not.toContain(changed);
  });
});
