import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { LoopEvent } from '@toolloop/core';
import type { RunEntry } from '@toolloop/core/internal';
import type { HeldRun, NewRun, RunStore, RunWrite } from '@toolloop/durable';
import { atOnce, AWKWARD_TEXTS, runContract, type Contract, type ContractRunner, type StoreUnderTest, type Trial } from './contract.js';

type RunTrial = Trial<RunStore>;

/** The behaviour that every `RunStore` must show. */
export function runStoreContract(name: string, make: () => Promise<StoreUnderTest<RunStore>>, runner: ContractRunner): void {
  runContract(CONTRACT, name, make, runner);
}

const CONTRACT: Contract<RunStore> = {
  port: 'RunStore',
  cases: [
    { name: 'finds a run as it was added, and no run twice', check: findsIt },
    { name: 'gives a queued run to one of many who claim it at once', check: claimedOnce },
    { name: 'refuses what is written under a hold that another process has', check: fences },
    { name: 'keeps entries in the order in which they were written last, however awkward their texts are', check: keepsEntries },
    { name: 'keeps each event once, and gives them in pages', check: keepsEvents },
    { name: 'queues a run that was woken before it began to wait', check: wakesEarly },
    { name: 'queues a run that was cancelled before it began to wait', check: cancelsEarly },
    { name: 'queues a waiting run that is woken, once', check: wakes },
    { name: 'hands a waiting run out when its time has come, and it can be taken', check: wakesAtATime },
    { name: 'tells who holds a run that it is to end, and queues one that nobody holds', check: cancels },
    { name: 'takes a run from a process that is silent', check: takesOver },
    { name: 'lets nobody but its holder give a run back', check: releases },
    { name: 'lists one actor’s runs, the newest first, in pages', check: lists },
    { name: 'tells whoever watches that something was written', check: watches },
    { name: 'hands queued runs to a worker, and again where it rejects', check: works },
  ],
  restart: {
    before: async ({ store, tenant }) => {
      const hold = await store.add({ ...newRun(tenant), runId: tenant }, 'running');
      await store.write(hold, {
        entries: [entry('begin')],
        events: [event(tenant, 1)],
        ending: { status: 'waiting', finishReason: 'waiting' },
      });
    },
    after: async (store, { tenant }) => {
      assert.deepEqual(
        [
          (await store.find(tenant))?.status,
          (await store.entries(tenant)).length,
          (await store.events(tenant, { after: 0, limit: 9 })).length,
        ],
        ['waiting', 1, 1],
      );
    },
  },
};

const NOTHING: RunWrite = { entries: [], events: [] };

function newRun(tenant: string, actorId = 'alice'): NewRun {
  return { runId: randomUUID(), tenant, actorId, loop: 'support', request: { prompt: 'Go on.\0', context: { a: [1, null] } } };
}

function entry(key: string, words = key): RunEntry {
  return { type: 'step', key, value: { words } };
}

function event(runId: string, sequence: number, text = 'x'): LoopEvent {
  return { type: 'text-delta', step: 1, text, runId, sequence, timestamp: '2026-01-01T00:00:00.000Z' };
}

async function findsIt({ store, other, tenant }: RunTrial): Promise<void> {
  const run = { ...newRun(tenant), forkOf: { runId: 'another', step: 2 } };
  assert.deepEqual(await store.add(run, 'running'), { runId: run.runId, epoch: 1 });
  const { createdAt, updatedAt, ...found } = (await other.find(run.runId)) ?? assert.fail('It is not there.');
  assert.deepEqual(found, { ...run, status: 'running', lastSequence: 0 });
  assert.ok(Date.parse(createdAt) <= Date.parse(updatedAt));
  await assert.rejects(other.add(run, 'queued'));
  assert.equal(await store.find(randomUUID()), undefined);
}

async function claimedOnce(trial: RunTrial): Promise<void> {
  const { runId } = await trial.store.add(newRun(trial.tenant), 'queued');
  const claims = await atOnce(trial, 20, (store) => store.claim(runId));
  const got = claims.filter((claim) => claim !== undefined);
  assert.equal(got.length, 1);
  assert.deepEqual(got[0]?.hold, { runId, epoch: 2 });
  assert.equal(got[0]?.record.status, 'running');
}

async function fences({ store, other, tenant }: RunTrial): Promise<void> {
  const first = await store.add(newRun(tenant), 'running');
  await store.write(first, { entries: [entry('begin')], events: [event(first.runId, 1)] });
  await store.release(first);
  const second = (await other.claim(first.runId)) ?? assert.fail('It was not queued.');
  await assert.rejects(store.write(first, { entries: [entry('late')], events: [event(first.runId, 2)] }), { name: 'RunLostError' });
  await assert.rejects(store.write(first, { ...NOTHING, ending: { status: 'ended', finishReason: 'stop' } }), { name: 'RunLostError' });
  assert.deepEqual(await store.beat([first]), []);
  await other.write(second.hold, { entries: [entry('step:1')], events: [], ending: { status: 'ended', finishReason: 'stop' } });
  assert.deepEqual(
    (await store.entries(first.runId)).map(({ key }) => key),
    ['begin', 'step:1'],
  );
  await assert.rejects(other.write(second.hold, NOTHING), { name: 'RunLostError' });
  assert.equal(await store.claim(first.runId), undefined);
}

async function keepsEntries({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await store.add({ ...newRun(tenant), entries: [entry('begin')] }, 'running');
  const awkward = AWKWARD_TEXTS.map((text) => entry(`tool:${text}`, text));
  await store.write(hold, { entries: [entry('model:1'), ...awkward], events: [] });
  await store.write(hold, { entries: [entry('model:1', 'again')], events: [] });
  assert.deepEqual(await other.entries(hold.runId), [entry('begin'), ...awkward, entry('model:1', 'again')]);
}

async function keepsEvents({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await store.add(newRun(tenant), 'running');
  const events = Array.from({ length: 30 }, (_, index) => event(hold.runId, index + 1, AWKWARD_TEXTS[index % AWKWARD_TEXTS.length]));
  await store.write(hold, { entries: [], events: events.slice(0, 20) });
  await store.write(hold, { entries: [], events: events.slice(0, 20) });
  await store.write(hold, { entries: [], events: events.slice(20) });
  assert.deepEqual(await other.events(hold.runId, { after: 0, limit: 100 }), events);
  assert.deepEqual(await other.events(hold.runId, { after: 7, limit: 3 }), events.slice(7, 10));
  assert.deepEqual(await other.events(hold.runId, { after: 15, limit: 10 }), events.slice(15, 25));
  assert.deepEqual(await other.events(hold.runId, { after: 20, limit: 1 }), events.slice(20, 21));
  assert.deepEqual(await other.events(hold.runId, { after: 30, limit: 10 }), []);
  assert.equal((await other.find(hold.runId))?.lastSequence, 30);
}

const WAITING: RunWrite = { ...NOTHING, ending: { status: 'waiting', finishReason: 'waiting' } };

async function wakesEarly({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await store.add(newRun(tenant), 'running');
  await other.wake(hold.runId);
  assert.equal((await store.find(hold.runId))?.status, 'running');
  await store.write(hold, WAITING);
  assert.equal((await store.find(hold.runId))?.status, 'queued');
  const claim = (await other.claim(hold.runId)) ?? assert.fail('It was not queued.');
  await other.write(claim.hold, WAITING);
  assert.equal((await store.find(hold.runId))?.status, 'waiting');
}

async function cancelsEarly({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await store.add(newRun(tenant), 'running');
  await other.cancel(hold.runId, 'Never mind.');
  await store.write(hold, { ...NOTHING, ending: { status: 'waiting', finishReason: 'waiting' } });
  assert.equal((await other.claim(hold.runId))?.record.cancelled, 'Never mind.');
}

async function wakes(trial: RunTrial): Promise<void> {
  const { store, tenant } = trial;
  const hold = await store.add(newRun(tenant), 'running');
  await store.write(hold, WAITING);
  await atOnce(trial, 8, (one) => one.wake(hold.runId));
  const claims = await atOnce(trial, 8, (one) => one.claim(hold.runId));
  assert.equal(claims.filter((claim) => claim !== undefined).length, 1);
  await store.wake(randomUUID());
}

async function wakesAtATime({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await store.add(newRun(tenant), 'running');
  await store.write(hold, WAITING);
  const early: string[] = [];
  const claims: (HeldRun | undefined)[] = [];
  const at = Date.now() + 700;
  const end = await other.work(async (runId) => {
    if (runId !== hold.runId) return;
    if (Date.now() < at - 50) early.push(runId);
    claims.push(await other.claim(runId));
  }, 1);
  await store.wakeAt(hold.runId, new Date(at));
  await store.wakeAt(randomUUID(), new Date(at));
  while (claims.length === 0) await wait(20);
  await end();
  assert.deepEqual([early, claims.map((claim) => claim?.hold.epoch)], [[], [hold.epoch + 1]]);
}

async function cancels({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await store.add(newRun(tenant), 'running');
  await other.cancel(hold.runId, 'Never mind.');
  assert.deepEqual(
    (await store.beat([hold])).map(({ runId, cancelled }) => [runId, cancelled]),
    [[hold.runId, 'Never mind.']],
  );
  await store.write(hold, WAITING);
  await other.cancel(hold.runId, 'Never mind.');
  assert.equal((await store.find(hold.runId))?.status, 'queued');
  const claim = (await store.claim(hold.runId)) ?? assert.fail('It was not queued.');
  assert.equal(claim.record.cancelled, 'Never mind.');
  await store.write(claim.hold, { ...NOTHING, ending: { status: 'ended', finishReason: 'aborted' } });
  await other.cancel(hold.runId, 'Too late.');
  assert.deepEqual([(await store.find(hold.runId))?.status, (await store.find(hold.runId))?.cancelled], ['ended', 'Never mind.']);
}

async function takesOver({ store, other, tenant }: RunTrial): Promise<void> {
  const [silent, told] = [await store.add(newRun(tenant), 'running'), await store.add(newRun(tenant), 'running')];
  await wait(150);
  await store.beat([told]);
  await other.requeueSilent(100);
  assert.deepEqual([(await store.find(silent.runId))?.status, (await store.find(told.runId))?.status], ['queued', 'running']);
}

async function releases({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await store.add(newRun(tenant), 'running');
  await other.release({ ...hold, epoch: hold.epoch + 1 });
  assert.equal((await store.find(hold.runId))?.status, 'running');
  await store.release(hold);
  assert.equal((await other.find(hold.runId))?.status, 'queued');
}

async function lists({ store, other, tenant, otherTenant }: RunTrial): Promise<void> {
  const runs: string[] = [];
  for (let index = 0; index < 5; index += 1) runs.unshift((await store.add(newRun(tenant), 'running')).runId);
  await store.add(newRun(tenant, 'mia'), 'running');
  await store.add(newRun(otherTenant), 'running');
  const page = await other.list({ tenant, actorId: 'alice', limit: 3 });
  const rest = await other.list({ tenant, actorId: 'alice', limit: 3, after: page.at(-1)?.runId ?? '' });
  assert.deepEqual(
    [...page, ...rest].map(({ runId }) => runId),
    runs,
  );
  assert.deepEqual(await store.list({ tenant, actorId: 'alice', status: 'ended' }), []);
}

async function watches({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await store.add(newRun(tenant), 'running');
  const told: string[] = [];
  const end = await other.watch(hold.runId, () => told.push(hold.runId));
  await store.write(hold, { entries: [], events: [event(hold.runId, 1)] });
  while (told.length === 0) await wait(5);
  await end();
}

async function works({ store, other, tenant }: RunTrial): Promise<void> {
  const claimed: string[] = [];
  const handed: string[] = [];
  let mine = '';
  const end = await other.work(async (runId) => {
    if (runId !== mine) return;
    handed.push(runId);
    const claim = await other.claim(runId);
    if (!claim) return;
    if (handed.length === 1) {
      await other.release(claim.hold);
      throw new Error('The first time it fails.');
    }
    claimed.push(runId);
  }, 10);
  const run = newRun(tenant);
  mine = run.runId;
  await store.add(run, 'queued');
  while (claimed.length === 0) await wait(5);
  await end();
  assert.ok(handed.length >= 2);
}
