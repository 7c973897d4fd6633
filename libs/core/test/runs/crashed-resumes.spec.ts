import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  PendingService,
  type LoopEvent,
  type Policy,
  RunElsewhereError,
  ToolLoopService,
} from '@toolloop/core';
import { StorageUnavailableError } from '@toolloop/protocol';
import {
  PendingStore,
  CallJournal,
  MemoryPendingStore,
  MemoryCallJournal,
  MemoryRunLog,
  RunLog,
} from '@toolloop/core/stores';
import {
  call,
  calls,
  ScriptedModel,
  type ScriptedTurn,
  type StoreTrouble,
  text,
  troubled,
} from '@toolloop/testing';
import { ask, openModule } from '../fixtures/shop.module.js';

afterEach(() => {
  jest.restoreAllMocks();
  jest.useRealTimers();
});

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const policy: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ effects: ['state_change'] }],
};
const never = (): Promise<never> => new Promise(() => undefined);
const gone = (): Promise<never> => Promise.reject(new Error('The connection is gone.'));
const lost = (): Promise<never> =>
  Promise.reject(new StorageUnavailableError('The connection is gone.'));

/** A promise, and what resolves it. */
function gate(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve!: () => void;
  const promise = new Promise<void>((open) => {
    resolve = open;
  });
  return { promise, resolve };
}

/** Processes that share their stores; the run that waits in them has been approved by now. */
async function waiting() {
  const runs = new MemoryRunLog();
  const shared = [
    { provide: PendingStore, useValue: new MemoryPendingStore() },
    { provide: CallJournal, useValue: new MemoryCallJournal() },
  ];
  const done: string[] = [];
  const context = { act: (key: string) => `${key} was done ${done.push(key)} times` };
  const start = async (turns: readonly ScriptedTurn[], trouble?: StoreTrouble) => {
    const log = trouble ? troubled<RunLog>(runs, trouble) : runs;
    const providers = [...shared, { provide: RunLog, useValue: log }];
    const module = await openModule(new ScriptedModel(turns), { policy, providers });
    return { module, loop: module.get<ToolLoopService>(ToolLoopService) };
  };
  const { module, loop } = await start([calls(call('probe__write', { key: 'w' }))]);
  const { runId } = await loop.run(ask({ context }));
  const approvals: PendingService = module.get(PendingService);
  const [asked] = await approvals.list(alice);
  await approvals.decide({ approvalId: asked?.approvalId ?? '', decision: 'approve' }, alice);
  return { runs, runId, done, start, request: { ...alice, context } };
}

/** Lets as much time pass as a process may be silent, and more. */
function passTime(): void {
  const now = Date.now();
  jest.spyOn(Date, 'now').mockReturnValue(now + 16_000);
}

const untilSo = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 2));
};

describe('a run whose process dies after it has claimed it', () => {
  it('is not lost: another process resumes it once that one is silent, and no effect takes place twice', async () => {
    const { runs, runId, done, start, request } = await waiting();
    const dying = await start([text('It is done.')], { method: 'append', answer: never });
    const first = await dying.loop.resume(runId, request);
    first.result.catch(() => undefined);
    await untilSo(() => done.length === 1);
    const other = await start([text('It is done.')]);
    await expect((await other.loop.resume(runId, request)).result).rejects.toMatchObject({
      code: 'unknown_run',
    });
    passTime();
    const result = await (await other.loop.resume(runId, request)).result;
    expect(result).toMatchObject({
      finishReason: 'stop',
      text: 'It is done.',
      toolCalls: [{ status: 'succeeded' }],
    });
    expect(done).toEqual(['w']);
    expect(await runs.find(runId)).toMatchObject({
      status: 'ended',
      finishReason: 'stop',
      epoch: 3,
    });
  });

  it('is resumed by that process where only the answer to the claim is lost, which asks again', async () => {
    const { runs, runId, done, start, request } = await waiting();
    const cut = await start([text('It is done.')], {
      method: 'acquire',
      at: 1,
      answer: lost,
      isDone: true,
    });
    expect(await (await cut.loop.resume(runId, request)).result).toMatchObject({
      finishReason: 'stop',
    });
    expect(await runs.find(runId)).toMatchObject({ status: 'ended', epoch: 2 });
    expect(done).toEqual(['w']);
  });

  it('is not lost where the claim holds and its answer does not come', async () => {
    const { runs, runId, done, start, request } = await waiting();
    const cut = await start([], { method: 'acquire', answer: gone, isDone: true });
    await expect((await cut.loop.resume(runId, request)).result).rejects.toMatchObject({
      name: 'StorageUnavailableError',
    });
    expect(await runs.find(runId)).toMatchObject({ status: 'running' });
    passTime();
    const other = await start([text('It is done.')]);
    expect(await (await other.loop.resume(runId, request)).result).toMatchObject({
      finishReason: 'stop',
    });
    expect(done).toEqual(['w']);
  });

  it('is not ended by that process where it was only frozen', async () => {
    const { runs, runId, start, request } = await waiting();
    const { promise: thawed, resolve: thaw } = gate();
    const append = runs.append.bind(runs);
    let isFrozen = true;
    runs.append = async (hold, write) => {
      if (isFrozen) {
        isFrozen = false;
        await thawed;
      }
      return append(hold, write);
    };
    const frozen = await start([text('Zombie.')]);
    const handle = await frozen.loop.resume(runId, request);
    const seen: LoopEvent['type'][] = [];
    handle.events$.subscribe(({ type }) => seen.push(type));
    const zombie = handle.result.catch((error: unknown) => error);
    await untilSo(() => !isFrozen);
    passTime();
    const other = await start([text('It is done.')]);
    expect(await (await other.loop.resume(runId, request)).result).toMatchObject({
      text: 'It is done.',
    });
    thaw();
    expect(await zombie).toBeInstanceOf(RunElsewhereError);
    expect(seen).not.toContain('run-end');
    expect(await runs.find(runId)).toMatchObject({ status: 'ended', epoch: 3 });
  });
});

describe('a process whose run was taken over', () => {
  it('breaks it off with its next report', async () => {
    jest.useFakeTimers({
      doNotFake: [
        'nextTick',
        'setImmediate',
        'setTimeout',
        'clearTimeout',
        'queueMicrotask',
        'Date',
        'performance',
      ],
    });
    const { runs, runId, start, request } = await waiting();
    const { loop } = await start([]);
    const { promise: begun, resolve: begin } = gate();
    const act = (): Promise<never> => {
      begin();
      return never();
    };
    const handle = await loop.resume(runId, { ...request, context: { act } });
    const result = handle.result.catch((error: unknown) => error);
    await begun;
    const held = await runs.find(runId);
    if (held?.lease) await runs.renew([{ runId, ...held.lease }], 0);
    expect(await runs.acquire(runId, { owner: 'another', forMs: 60_000 }, 2)).toBeDefined();
    jest.advanceTimersByTime(3_000);
    expect(await result).toBeInstanceOf(RunElsewhereError);
  });
});

describe('a log in memory', () => {
  it('takes no more waiting runs of a tenant that has 1,000, and forgets none of them', async () => {
    const runs = new MemoryRunLog();
    const add = (tenant: string, index: number) =>
      runs.add({ runId: `${tenant} ${index}`, tenant, actorId: 'alice' }, 'waiting');
    for (let index = 0; index < 1_000; index += 1) await add('acme', index);
    await expect(add('acme', 1_000)).rejects.toThrow('Bind a durable RunLog.');
    await add('globex', 0);
    expect(await runs.find('acme 0')).toMatchObject({ status: 'waiting' });
    expect(await runs.find('globex 0')).toMatchObject({ status: 'waiting' });
  });

  it('keeps the last 1,000 runs that have ended', async () => {
    const runs = new MemoryRunLog();
    for (let index = 0; index <= 1_000; index += 1) {
      const run = { runId: `run ${index}`, tenant: 'acme', actorId: 'alice' };
      const lease = await runs.begin(run, { owner: 'one', forMs: 60_000 });
      await runs.append(
        { ...run, ...lease },
        { entries: [], events: [], ending: { status: 'ended', finishReason: 'stop' } },
      );
    }
    expect(await runs.find('run 0')).toBeUndefined();
    expect(await runs.find('run 1')).toMatchObject({ status: 'ended' });
  });
});
