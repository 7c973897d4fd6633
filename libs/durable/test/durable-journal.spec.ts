import { setTimeout as wait } from 'node:timers/promises';
import { expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import type { LoopEvent } from '@toolloop/core';
import type { RunEntry } from '@toolloop/core/internal';
import {
  MemoryPendingStore,
  MemoryCallJournal,
  MemoryRunLog,
  type OwedEntry,
  type RunHold,
  type RunWrite,
} from '@toolloop/core/stores';
import { StorageUnavailableError } from '@toolloop/protocol';
import { ScriptedModel, text } from '@toolloop/testing';
import { collectingMs, DurableJournal } from '../src/runs/durable-journal.js';
import { DeskProcess, type World } from './fixtures/desk.process.js';
import { alice } from './fixtures/durable-runs.js';

const run = { runId: 'run_1', tenant: 'acme', actorId: 'alice', request: { prompt: 'Go on.' } };

/** Has every write wait until it is let go on. */
class SlowRunLog extends MemoryRunLog {
  readonly writes: RunWrite[] = [];
  private goOn: () => void = () => undefined;

  override async append(hold: RunHold, write: RunWrite): Promise<void> {
    this.writes.push(write);
    await new Promise<void>((resolve) => (this.goOn = resolve));
    await super.append(hold, write);
  }

  async letGoOn(): Promise<void> {
    this.goOn();
    await wait(5);
  }
}

function said(sequence: number): LoopEvent {
  return {
    type: 'text-delta',
    step: 1,
    text: 'x',
    runId: 'run_1',
    sequence,
    timestamp: '2026-01-01T00:00:00.000Z',
  };
}

function entry(key: string): RunEntry {
  return { type: 'model', key, value: {} };
}

const END: LoopEvent = {
  type: 'run-end',
  runId: 'run_1',
  sequence: 5,
  timestamp: '2026-01-01T00:00:00.000Z',
  finishReason: 'stop',
  text: '',
  steps: 1,
  usage: { inputTokens: 0, outputTokens: 0 },
};

it('writes all that came while a write was under way at once, its end included', async () => {
  const log = new SlowRunLog();
  const lease = await log.begin(run, { owner: 'one', forMs: 60_000 });
  const journal = new DurableJournal(log, { runId: run.runId, ...lease });
  const kept: Promise<unknown>[] = [journal.record(entry('a'))];
  await wait(5);
  for (const sequence of [1, 2, 3, 4]) {
    void journal.sink.write(said(sequence), run);
    kept.push(journal.record(entry(`b${sequence}`)));
  }
  kept.push(Promise.resolve(journal.sink.write(END, run)));
  await log.letGoOn();
  await log.letGoOn();
  await Promise.all(kept);
  expect(
    log.writes.map(({ entries, events, ending }) => [
      entries.length,
      events.length,
      ending?.status,
    ]),
  ).toEqual([
    [1, 0, undefined],
    [4, 5, 'ended'],
  ]);
  expect(await log.find(run.runId)).toMatchObject({ status: 'ended', lastSequence: 5 });
});

it('writes nothing that comes after another process took the run over, neither by itself nor with what was to be written', async () => {
  const log = new SlowRunLog();
  const lease = await log.begin(run, { owner: 'one', forMs: 60_000 });
  const journal = new DurableJournal(log, { runId: run.runId, ...lease });
  const first = journal.record(entry('a'));
  const second = journal.record(entry('b'));
  await wait(5);
  journal.lose();
  journal.note(entry('late'));
  await expect(journal.record(entry('later'))).rejects.toThrow('no longer held');
  await log.letGoOn();
  await log.letGoOn();
  await Promise.all([first, second]);
  expect((await log.read(run.runId)).map(({ key }) => key)).toEqual(['a', 'b']);
});

/** Does not answer for a while. */
class AbsentRunLog extends MemoryRunLog {
  isThere = false;
  asked = 0;

  override append(hold: RunHold, write: RunWrite): Promise<void> {
    this.asked += 1;
    return this.isThere ? super.append(hold, write) : Promise.reject(new StorageUnavailableError());
  }
}

/**
 * A run that has ended while its log does not answer, and whose reader does not wait for it any
 * more.
 */
async function endedInTheDark() {
  const log = new AbsentRunLog();
  const lease = await log.begin(run, { owner: 'one', forMs: 60_000 });
  const journal = new DurableJournal(log, { runId: run.runId, ...lease });
  log.isThere = true;
  await journal.record(entry('a'));
  log.isThere = false;
  const told = Promise.resolve(journal.sink.write(END, run)).catch((error: unknown) => error);
  while (log.asked < 2) await wait(1);
  journal.handOver(new Error('A store failed.'));
  return { log, journal, told };
}

it('writes the end of a run again until it is kept, however late that is, and gives the run to no other process meanwhile', async () => {
  const { log, journal, told } = await endedInTheDark();
  while (log.asked < 3) await wait(5);
  expect([journal.isOurs, journal.isKept]).toEqual([false, false]);
  expect(await log.find(run.runId)).toMatchObject({ status: 'running' });
  log.isThere = true;
  await journal.settled();
  expect([journal.isOurs, journal.isKept, await told]).toEqual([false, true, undefined]);
  expect(await log.find(run.runId)).toMatchObject({ status: 'ended', finishReason: 'stop' });
});

it('writes the end of a run no more once another process has the run', async () => {
  const { log, journal, told } = await endedInTheDark();
  journal.lose();
  await journal.settled();
  expect([journal.isKept, await told]).toEqual([false, expect.any(StorageUnavailableError)]);
  expect(log.asked).toBeLessThanOrEqual(3);
});

it('knows that a run was cancelled while it was its own, and not what was cancelled after another process had it', async () => {
  const [{ journal: ours }, { journal: lost }] = [await endedInTheDark(), await endedInTheDark()];
  ours.cancel('Never mind.');
  ours.lose();
  ours.cancel('It was lost.');
  lost.lose();
  lost.cancel('It was lost.');
  expect([ours.cancelled, lost.cancelled]).toEqual(['Never mind.', undefined]);
});

/** Counts the writes. */
class CountingRunLog extends MemoryRunLog {
  writes = 0;

  override append(hold: RunHold, write: RunWrite): Promise<void> {
    this.writes += 1;
    return super.append(hold, write);
  }
}

/** A model that says 40 words, one every 20 ms. */
class SpeakingModel extends ScriptedModel {
  override async *stream(
    ...[, signal]: Parameters<ScriptedModel['stream']>
  ): ReturnType<ScriptedModel['stream']> {
    for (let word = 0; word < 40 && !signal.aborted; word += 1) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      yield { type: 'text-delta', text: `word${word} ` };
    }
    yield* text('').events(() => '');
  }
}

/** Resolves to the writes of a run, where so many are open at once. */
async function writesOfEach(runs: number): Promise<number> {
  const log = new CountingRunLog();
  const stores = { pending: new MemoryPendingStore(), journal: new MemoryCallJournal() };
  const world: World = {
    effects: [],
    open: () => Promise.resolve({ runs: log, stores, close: () => Promise.resolve() }),
  };
  const process = await DeskProcess.start(world, new SpeakingModel([]), {
    options: { concurrency: 0 },
  });
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
  const running = Promise.all(
    Array.from({ length: runs }, () => process.loop.run({ ...alice, durable: true })),
  );
  await jest.advanceTimersByTimeAsync(2_000);
  jest.useRealTimers();
  const results = await running;
  await process.close();
  expect(results.every(({ text: words }) => words.endsWith('word39 '))).toBe(true);
  return log.writes / runs;
}

it('collects what is shown for longer, the more runs the process has', async () => {
  expect([1, 16, 50, 100, 10_000].map(collectingMs)).toEqual([50, 50, 150, 300, 300]);
  const alone = await writesOfEach(1);
  expect(await writesOfEach(60)).toBeLessThan(alone * 0.6);
});

const pay = {
  tenant: 'acme',
  idempotencyKey: 'pay 1',
  runId: run.runId,
  declaredId: 'bank__pay',
  args: '{}',
};
const paying = { ...pay, owner: 'one', forMs: 60_000 };
const PAID = { status: 'succeeded', content: 'Paid.', ui: null } as const;

/** Notes what is written, and refuses some of it as a database does. */
class NotedRunLog extends MemoryRunLog {
  readonly writes: RunWrite[] = [];
  refuses: (write: RunWrite) => Error | undefined = () => undefined;

  override append(hold: RunHold, write: RunWrite): Promise<void> {
    this.writes.push(write);
    const error = this.refuses(write);
    return error ? Promise.reject(error) : super.append(hold, write);
  }
}

async function withCalls(calls = new MemoryCallJournal()) {
  const log = new NotedRunLog();
  const lease = await log.begin(run, { owner: 'one', forMs: 60_000 });
  const journal = new DurableJournal(log, { runId: run.runId, ...lease }, { calls });
  const { calls: own } = journal;
  if (!own) throw new Error('It has a journal of calls.');
  return { log, journal, own, calls };
}

it('begins a call in one write with what was noted before, and ends it in one with the entry that tells of it', async () => {
  const { log, journal, own, calls } = await withCalls();
  journal.note(entry('model:1'));
  const claim = await own.acquire(paying);
  expect(claim).toMatchObject({ status: 'acquired', lease: { owner: 'one' } });
  await own.finish({ ...pay, owner: 'one', epoch: 1 }, PAID);
  expect(await calls.find(pay)).toMatchObject({ status: 'in_progress' });
  await journal.record(entry('tool:1'));
  const told = log.writes.map(({ entries, calls: of }) => [
    entries.map(({ key }) => key),
    of?.begun.length,
    of?.finished.length,
  ]);
  expect(told).toEqual([
    [['model:1'], 1, 0],
    [['tool:1'], 0, 1],
  ]);
});

it('keeps an outcome though nothing follows that would be kept with it', async () => {
  const { log, journal, own } = await withCalls();
  await own.finish({ ...pay, owner: 'one', epoch: 1 }, PAID);
  while (log.writes.length === 0) await wait(1);
  await journal.settled();
  expect(log.writes.map(({ calls }) => calls?.finished.length)).toEqual([1]);
});

it('writes the run without an outcome that the log does not take, and tells the journal of that by itself', async () => {
  const { log, journal, own, calls } = await withCalls();
  await own.acquire(paying);
  log.refuses = (write) =>
    write.calls?.finished.length ? new RangeError('It is too large.') : undefined;
  await own.finish({ ...pay, owner: 'one', epoch: 1 }, PAID);
  await journal.record(entry('tool:1'));
  await journal.settled();
  expect((await log.read(run.runId)).map(({ key }) => key)).toEqual(['tool:1']);
  expect(await calls.find(pay)).toEqual({ status: 'finished', outcome: PAID });
  await journal.record(entry('tool:2'));
  expect(journal.isOurs).toBe(true);
});

/** Takes no outcome. */
class PickyCallJournal extends MemoryCallJournal {
  override finish(): Promise<void> {
    return Promise.reject(new RangeError('It is too large.'));
  }
}

it('continues a run of which neither the log nor the journal takes an outcome, and leaves the key of that call taken', async () => {
  const logged = jest.spyOn(Logger.prototype, 'error').mockReturnValue(undefined);
  const { log, journal, own, calls } = await withCalls(new PickyCallJournal());
  await own.acquire(paying);
  log.refuses = (write) =>
    write.calls?.finished.length ? new RangeError('It is too large.') : undefined;
  await own.finish({ ...pay, owner: 'one', epoch: 1 }, PAID);
  await journal.record(entry('tool:1'));
  await journal.settled();
  expect(logged.mock.calls.map(([message]) => String(message))).toEqual([
    expect.stringContaining('its key stays taken'),
  ]);
  logged.mockRestore();
  expect([journal.isOurs, (await calls.find(pay))?.status]).toEqual([true, 'in_progress']);
});

it('begins no call once another process has the run, and still tells the journal how an earlier one ended', async () => {
  const { log, journal, own, calls } = await withCalls();
  await own.acquire(paying);
  const taken = await log
    .renew([{ runId: run.runId, owner: 'one', epoch: 1 }], 0)
    .then(() => log.acquire(run.runId, { owner: 'two', forMs: 60_000 }));
  expect(taken?.epoch).toBe(2);
  await own.finish({ ...pay, owner: 'one', epoch: 1 }, PAID);
  await expect(journal.record(entry('tool:1'))).rejects.toThrow('not this process');
  const other = { ...paying, idempotencyKey: 'pay 2' };
  await expect(own.acquire(other)).rejects.toThrow('no longer held');
  await journal.settled();
  expect([await calls.find(pay), await calls.find(other)]).toEqual([
    { status: 'finished', outcome: PAID },
    undefined,
  ]);
});

it('tells the journal of an outcome that comes after the run was given away', async () => {
  const { journal, own, calls } = await withCalls();
  await own.acquire(paying);
  journal.lose();
  await own.finish({ ...pay, owner: 'one', epoch: 1 }, PAID);
  await journal.settled();
  expect(await calls.find(pay)).toEqual({ status: 'finished', outcome: PAID });
});

const owed = (entryId: string): OwedEntry => ({
  entryId,
  at: '2026-01-01T00:00:00.000Z',
  text: '{}',
  keyId: '1',
  signature: 'ab',
});

async function owedIds(log: MemoryRunLog): Promise<readonly string[]> {
  return (await log.listOwed({ limit: 9 })).map(({ entryId }) => entryId);
}

it('keeps what the audit has not taken in the write that has the outcome', async () => {
  const { log, journal } = await withCalls();
  journal.owe([owed('1')]);
  await journal.record(entry('tool:1'));
  await journal.record(entry('tool:2'));
  expect(log.writes.map((write) => write.owed?.length ?? 0)).toEqual([1, 0]);
  expect(await owedIds(log)).toEqual(['1']);
});

it('keeps what the audit has not taken by itself if the write failed, or the run is given away', async () => {
  const { log, journal } = await withCalls();
  log.refuses = () => new RangeError('It is too large.');
  journal.owe([owed('1')]);
  await expect(journal.record(entry('tool:1'))).rejects.toThrow('too large');
  journal.owe([owed('2')]);
  await journal.settled();
  expect(await owedIds(log)).toEqual(['1', '2']);
});
