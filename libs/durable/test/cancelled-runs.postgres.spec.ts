import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { RunElsewhereError, type RunHandle, tool } from '@toolloop/core';
import type { RunRecord } from '@toolloop/core/stores';
import {
  type Database,
  JobQueue,
  openDatabase,
  SqlDirectiveStore,
  SqlRunLog,
  SqlStores,
} from '@toolloop/durable';
import { call, calls, text } from '@toolloop/testing';
import { createServerDatabase, describePostgres, hasServer } from './databases.js';
import { asking, type DeskProcess, type Kept, type World } from './fixtures/desk.process.js';
import { alice, never, processStarter, scripted, until, untilSo } from './fixtures/durable-runs.js';
import { Way } from './fixtures/way.js';

// Machines are busy.
/** Looks often for runs without a process; its own are taken over on purpose alone. */
const options = { heartbeatMs: 50, takeoverMs: 60_000 };

const remind = tool({
  id: 'remind',
  description: 'Reminds.',
  input: {
    type: 'object',
    properties: { about: { type: 'string' } },
    required: ['about'],
    additionalProperties: false,
  },
  effect: 'external_side_effect',
  reveal: 'all',
  directive: { type: 'remind', subject: '{about}', compensate: () => undefined },
  execute: () => 'reminded',
});
const act = (key: string) => call('desk__act', { key });
const keyed = (key: string) => call('desk__keyed', { key });

let server: Awaited<ReturnType<typeof createServerDatabase>>;
let way: Way;
/** By a way of its own. */
let direct: Database;

/** What a process has hold of, by an address of the server. */
async function openBy(
  url: string,
  change: (stores: SqlStores) => void = () => undefined,
): Promise<Kept> {
  const database = await openDatabase({ url, connections: 4 });
  const jobs = new JobQueue(database);
  const runs = new SqlRunLog(database, jobs);
  const stores = new SqlStores(database, runs, new SqlDirectiveStore(database, jobs));
  change(stores);
  const close = async (): Promise<void> => {
    await jobs.onApplicationShutdown();
    await database.close();
  };
  return { runs, stores, close };
}

const byTheWay = (): World => ({ effects: [], open: () => openBy(way.url) });

async function recordOf(
  runId: string,
): Promise<Pick<RunRecord, 'status' | 'finishReason' | 'epoch'>> {
  const [row] = await direct.query<{
    status: RunRecord['status'];
    reason: RunRecord['finishReason'];
    epoch: number;
  }>('select status, finish_reason as reason, epoch from toolloop.runs where run_id = $1', [runId]);
  return {
    status: row?.status ?? 'queued',
    ...(row?.reason && { finishReason: row.reason }),
    epoch: row?.epoch ?? 0,
  };
}

/** Looks at a run by another way, until it has ended. */
async function endOf(runId: string): Promise<Pick<RunRecord, 'status' | 'finishReason' | 'epoch'>> {
  for (;;) {
    const record = await recordOf(runId);
    if (record.status === 'ended') return record;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function keptDirectives(): Promise<
  readonly { readonly status: string; readonly attempts: number }[]
> {
  return direct.query('select status, attempts from toolloop.directives');
}

interface OpenedRun {
  readonly handle: RunHandle;
  readonly seen: string[];
}

function opened(desk: DeskProcess): OpenedRun {
  const handle = desk.loop.open({ ...alice, durable: true });
  const seen: string[] = [];
  handle.events$.subscribe(({ type }) => seen.push(type));
  void handle.result.catch(() => undefined);
  return { handle, seen };
}

/** The store hangs, and the run is cancelled: its handle does not wait for the store. */
async function cancelledInTheDark({ handle, seen }: OpenedRun): Promise<void> {
  way.block();
  handle.cancel('Never mind.');
  await expect(handle.result).rejects.toThrow(RunElsewhereError);
  expect(seen).not.toContain('run-end');
}

if (hasServer) {
  beforeEach(async () => {
    server = await createServerDatabase();
    way = await Way.to(server.url);
    direct = await openDatabase({ url: server.url, connections: 2 });
  });
  afterEach(async () => {
    way.close();
    await direct.close();
    await server.drop();
  });
}

describePostgres('invariant 16: a durable run that is cancelled while its store hangs', () => {
  const start = processStarter();
  it('ends in its log as soon as the store is back, by its own process, with what became of the call that it was in', async () => {
    const world = byTheWay();
    world.during = never;
    const desk = await start(world, scripted(calls(act('a')), text('Done.')), { options });
    const run = opened(desk);
    await untilSo(() => world.effects.length > 0);
    await cancelledInTheDark(run);
    way.free();
    expect(await endOf(run.handle.runId)).toEqual({
      status: 'ended',
      finishReason: 'aborted',
      epoch: 1,
    });
    const { calls: changed } = await desk.runs.undo(run.handle.runId, alice);
    expect(changed).toMatchObject([{ declaredId: 'desk__act', status: 'not_possible' }]);
    expect(world.effects).toEqual(['acme a']);
  });

  it('ends so, too, where it is cancelled while the outcome of its call is being kept', async () => {
    const world = byTheWay();
    const desk = await start(world, scripted(calls(act('a')), text('Done.')), { options });
    let run: OpenedRun | undefined;
    world.during = () => {
      way.block();
      setImmediate(() => run?.handle.cancel()); // by then its method has answered
    };
    run = opened(desk);
    await expect(run.handle.result).rejects.toThrow(RunElsewhereError);
    way.free();
    expect(await endOf(run.handle.runId)).toEqual({
      status: 'ended',
      finishReason: 'aborted',
      epoch: 1,
    });
    expect((await desk.runs.undo(run.handle.runId, alice)).calls).toMatchObject([
      { declaredId: 'desk__act' },
    ]);
    expect(world.effects).toEqual(['acme a']);
  });

  it('is run by no other process where its beginning was still to be kept', async () => {
    const world = byTheWay();
    const desk = await start(world, scripted(calls(act('a')), text('Done.')), { options });
    await start(
      { ...world, open: () => openBy(server.url) },
      scripted(calls(act('b')), text('Done.')),
      { options },
    );
    way.block();
    const { handle } = opened(desk);
    handle.cancel();
    await handle.result.catch(() => undefined);
    way.free();
    expect(await endOf(handle.runId)).toMatchObject({ finishReason: 'aborted' });
    expect(world.effects).toEqual([]);
  });

  it('is ended by the process that has taken it over, though it waits for a person there', async () => {
    const world = byTheWay();
    const [effects, during] = [world.effects, never];
    const desk = await start(Object.assign(world, { during }), scripted(calls(act('a'))), {
      options,
    });
    const other = await start({ effects, open: () => openBy(server.url) }, scripted(), { options });
    const run = opened(desk);
    await untilSo(() => effects.length > 0);
    await cancelledInTheDark(run);
    await direct.query('update toolloop.runs set expires_at = now()');
    await until(other, run.handle.runId, 'waiting');
    // whether the call is to be made again
    expect(await other.approvals.list(alice)).toHaveLength(1);
    way.free();
    expect(await endOf(run.handle.runId)).toMatchObject({ finishReason: 'aborted' });
    expect(await other.approvals.list(alice)).toEqual([]);
    expect(effects).toEqual(['acme a']);
  });

  it('is cancelled in the process that has taken it over, and makes its call again there', async () => {
    const world = byTheWay();
    world.during = never;
    const desk = await start(world, scripted(calls(keyed('a'), act('b'))), { options });
    let made = 0;
    const during = (): Promise<void> => ((made += 1), never());
    const other = await start(
      { effects: world.effects, open: () => openBy(server.url), during },
      scripted(),
      { options },
    );
    const run = opened(desk);
    await untilSo(() => world.effects.length > 0);
    await cancelledInTheDark(run);
    await direct.query('update toolloop.runs set expires_at = now()');
    await untilSo(() => made > 0);
    way.free();
    expect(await endOf(run.handle.runId)).toMatchObject({ finishReason: 'aborted' });
    expect(await other.runs.get(run.handle.runId, alice)).toMatchObject({ status: 'ended' });
    expect([world.effects.length, made]).toEqual([1, 1]); // its receiver knows the key
  });

  it('says of a directive that it was asking for that it may be kept, and by which id it is undone', async () => {
    let run: OpenedRun | undefined;
    const blocked = (stores: SqlStores): void => {
      const { directives } = stores;
      const add = directives?.add.bind(directives);
      if (!directives || !add) throw new Error('There are no directives.');
      directives.add = (intent, first) => {
        way.block();
        run?.handle.cancel();
        return add(intent, first);
      };
    };
    const world: World = { effects: [], open: () => openBy(way.url, blocked) };
    const desk = await start(
      world,
      scripted(calls(call('remind', { about: 'x' })), text('Done.')),
      { options, tools: [remind] },
    );
    run = opened(desk);
    await expect(run.handle.result).rejects.toThrow(RunElsewhereError);
    way.free();
    expect(await endOf(run.handle.runId)).toEqual({
      status: 'ended',
      finishReason: 'aborted',
      epoch: 1,
    });
    while ((await keptDirectives())[0]?.status !== 'succeeded')
      await new Promise((resolve) => setTimeout(resolve, 10));
    expect(await keptDirectives()).toEqual([{ status: 'succeeded', attempts: 1 }]);
    expect((await desk.runs.undo(run.handle.runId, alice)).calls).toMatchObject([
      { declaredId: 'remind', status: 'undone' },
    ]);
  });
});

describePostgres('a durable run that is cancelled while it waits', () => {
  const start = processStarter();

  it('tells what the step did in which it waited, where it is undone', async () => {
    const requireApproval = [{ tools: ['desk__book'] }];
    const desk = await start(
      { effects: [], open: () => openBy(server.url) },
      scripted(calls(act('a'), call('desk__book', { key: 'b' }))),
      {
        policy: { ...asking, requireApproval },
      },
    );
    const handle = desk.loop.open({ ...alice, durable: true });
    await handle.result;
    await until(desk, handle.runId, 'waiting');
    await desk.runs.cancel(handle.runId, alice);
    await until(desk, handle.runId, 'ended');
    expect((await desk.runs.undo(handle.runId, alice)).calls).toMatchObject([
      { declaredId: 'desk__act' },
    ]);
  });
});
