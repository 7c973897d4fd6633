import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { LoopEvent } from '@toolloop/core';
import type { RunEntry } from '@toolloop/core/internal';
import type {
  LeasedRun,
  NewRun,
  OwedEntry,
  RunHold,
  RunLog,
  RunWrite,
} from '@toolloop/core/stores';
import {
  atOnce,
  AWKWARD_TEXTS,
  runContract,
  type Contract,
  type ContractRunner,
  type StoreUnderTest,
  type Trial,
} from './contract.js';
import { leaseCases } from './lease-cases.js';

/** The behaviour that every `RunLog` must show. */
export function runLogContract(
  name: string,
  make: () => Promise<StoreUnderTest<RunLog>>,
  runner: ContractRunner,
): void {
  runContract(CONTRACT, name, make, runner);
}

type RunTrial = Trial<RunLog>;

const CONTRACT: Contract<RunLog> = {
  port: 'RunLog',
  cases: [
    { name: 'finds a run as it was added, and no run twice', check: findsIt },
    { name: 'leases a queued run to one of many concurrent workers', check: leasedOnce },
    { name: 'refuses a write under a hold that another process has', check: fences },
    ...leaseCases<RunLog, string>({
      make: async (store, tenant) => {
        const run = newRun(tenant);
        await store.add(run, 'queued');
        return run.runId;
      },
      acquire: async (store, runId, request) => (await store.acquire(runId, request))?.lease,
      renew: async (store, runId, hold, forMs) =>
        (await store.renew([{ runId, ...hold }], forMs)).length > 0,
      release: (store, runId, hold) => store.release({ runId, ...hold }),
      write: (store, runId, hold) =>
        store.append({ runId, ...hold }, ENDED).then(
          () => true,
          (error: unknown) =>
            error instanceof Error && error.name === 'RunLostError' ? false : Promise.reject(error),
        ),
    }),
    {
      name: 'keeps entries in the order of their last write, however awkward their texts are',
      check: keepsEntries,
    },
    {
      name: 'drops the entries that a write names, and lets no write that comes late bring them back',
      check: drops,
    },
    {
      name: 'keeps what the audit has not taken, once, with a write or by itself, until it is settled',
      check: keepsOwed,
    },
    { name: 'keeps nothing of what the audit has not taken under a lost hold', check: fencesOwed },
    { name: 'keeps each event once, and reads them page by page', check: keepsEvents },
    { name: 'queues a run that was woken before it began to wait', check: wakesEarly },
    { name: 'queues a run that was cancelled before it began to wait', check: cancelsEarly },
    { name: 'queues a waiting run that is woken, once', check: wakes },
    {
      name: 'hands out a waiting run when it is due, so that it can be leased',
      check: wakesAtATime,
    },
    {
      name: 'tells the holder of a cancelled run to end it, and queues one without a holder',
      check: cancels,
    },
    { name: 'queues a durable run whose lease has expired, and no other', check: takesOver },
    { name: 'lets only its holder give a run back', check: releases },
    {
      name: 'hands out a run that was put off at its time, and knows how often it was',
      check: putsOff,
    },
    {
      name: 'hands out at once a run that was put off, where it is woken or cancelled',
      check: wakesPutOff,
    },
    {
      name: 'never queues a run without a request, which waits for its actor',
      check: waitsForItsActor,
    },
    {
      name: 'leases a run of an expected epoch to one of many owners, and to none after it changed',
      check: leasesAsExpected,
    },
    {
      name: 'leases a running run of an expected epoch once its lease has expired',
      check: leasesExpired,
    },
    {
      name: 'keeps the entries of a waiting run as they were written last, with any text',
      check: keepsWaiting,
    },
    { name: 'lists one actor’s runs page by page, the newest first', check: lists },
    { name: 'notifies a watcher of each write', check: watches },
    { name: 'hands queued runs to a worker, and again when it rejects', check: works },
    {
      name: 'hands out the run of one tenant promptly, though another has queued many, and those of each in their order',
      check: shares,
    },
  ],
  restart: {
    before: async ({ store, tenant }) => {
      const hold = await begun(store, { ...newRun(tenant), runId: tenant });
      await store.append(hold, {
        ...WAITING,
        entries: [entry('begin')],
        events: [event(tenant, 1)],
      });
    },
    after: async (store, { tenant }) => {
      assert.equal((await store.find(tenant))?.status, 'waiting');
      assert.deepEqual(
        [
          (await store.read(tenant)).length,
          (await store.events(tenant, { after: 0, limit: 9 })).length,
        ],
        [1, 1],
      );
    },
  },
};

const NOTHING: RunWrite = { entries: [], events: [] };

const ENDED: RunWrite = { ...NOTHING, ending: { status: 'ended', finishReason: 'stop' } };

/** A lease that is longer than any check. */
const LONG_MS = 600_000;

/** Acquires a run for an owner of its own. */
function acquire(store: RunLog, runId: string, epoch?: number): Promise<LeasedRun | undefined> {
  return store.acquire(runId, { owner: randomUUID(), forMs: LONG_MS }, epoch);
}

async function acquired(store: RunLog, runId: string): Promise<LeasedRun> {
  return (await acquire(store, runId)) ?? assert.fail('It was free to be leased.');
}

async function begun(store: RunLog, run: NewRun, forMs = LONG_MS): Promise<RunHold> {
  return { runId: run.runId, ...(await store.begin(run, { owner: randomUUID(), forMs })) };
}

function holdOf({ runId, lease }: LeasedRun): RunHold {
  return { runId, ...lease };
}

async function added(store: RunLog, run: NewRun, status: 'queued' | 'waiting'): Promise<string> {
  await store.add(run, status);
  return run.runId;
}

function newRun(tenant: string, actorId = 'alice'): NewRun {
  return {
    runId: randomUUID(),
    tenant,
    actorId,
    loop: 'support',
    request: { prompt: 'Continue.\0', context: { a: [1, null] } },
  };
}

function entry(key: string, words = key): RunEntry {
  return { type: 'step', key, value: { words } };
}

function event(runId: string, sequence: number, text = 'x'): LoopEvent {
  return {
    type: 'text-delta',
    step: 1,
    text,
    runId,
    sequence,
    timestamp: '2026-01-01T00:00:00.000Z',
  };
}

async function findsIt({ store, other, tenant }: RunTrial): Promise<void> {
  const run = { ...newRun(tenant), forkOf: { runId: 'another', step: 2 } };
  const lease = await store.begin(run, { owner: 'one', forMs: LONG_MS });
  assert.deepEqual([lease.owner, lease.epoch], ['one', 1]);
  const { createdAt, updatedAt, ...found } =
    (await other.find(run.runId)) ?? assert.fail('It is not there.');
  assert.deepEqual(found, { ...run, status: 'running', epoch: 1, lease, lastSequence: 0 });
  assert.ok(Date.parse(createdAt) <= Date.parse(updatedAt));
  await assert.rejects(other.add(run, 'queued'));
  await assert.rejects(other.begin(run, { owner: 'two', forMs: LONG_MS }));
  assert.equal(await store.find(randomUUID()), undefined);
}

async function leasedOnce(trial: RunTrial): Promise<void> {
  const runId = await added(trial.store, newRun(trial.tenant), 'queued');
  const leased = (await atOnce(trial, 20, (store) => acquire(store, runId))).filter(
    (run) => run !== undefined,
  );
  assert.deepEqual(
    leased.map(({ status, epoch, lease }) => [status, epoch, lease.epoch]),
    [['running', 2, 2]],
  );
}

async function fences({ store, other, tenant }: RunTrial): Promise<void> {
  const first = await begun(store, newRun(tenant));
  await store.append(first, { entries: [entry('begin')], events: [event(first.runId, 1)] });
  await store.release(first);
  const second = await acquired(other, first.runId);
  await assert.rejects(
    store.append(first, { entries: [entry('late')], events: [event(first.runId, 2)] }),
    { name: 'RunLostError' },
  );
  await assert.rejects(store.append(first, ENDED), { name: 'RunLostError' });
  assert.deepEqual(await store.renew([first], LONG_MS), []);
  await other.append(holdOf(second), { ...ENDED, entries: [entry('step:1')] });
  assert.deepEqual(await store.read(first.runId), [entry('begin'), entry('step:1')]);
  await assert.rejects(other.append(holdOf(second), NOTHING), { name: 'RunLostError' });
  assert.equal(await acquire(store, first.runId), undefined);
}

async function keepsEntries({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await begun(store, { ...newRun(tenant), entries: [entry('begin')] });
  const awkward = AWKWARD_TEXTS.map((text) => entry(`tool:${text}`, text));
  await store.append(hold, { entries: [entry('model:1'), ...awkward], events: [] });
  await store.append(hold, { entries: [entry('model:1', 'again')], events: [] });
  assert.deepEqual(await other.read(hold.runId), [
    entry('begin'),
    ...awkward,
    entry('model:1', 'again'),
  ]);
}

async function drops({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await begun(store, { ...newRun(tenant), entries: [entry('begin')] });
  const awkward = AWKWARD_TEXTS.map((text) => entry(`tool:${text}`, text));
  await store.append(hold, { ...NOTHING, entries: [entry('model:1'), ...awkward] });
  const dropped = ['model:1', 'no such key', ...awkward.map(({ key }) => key)];
  await assert.rejects(other.append({ ...hold, epoch: hold.epoch + 1 }, { ...NOTHING, dropped }), {
    name: 'RunLostError',
  });
  assert.deepEqual(await other.read(hold.runId), [entry('begin'), entry('model:1'), ...awkward]);
  const write = { entries: [entry('step:1')], dropped, events: [event(hold.runId, 2)] };
  for (let times = 0; times < 2; times += 1) await store.append(hold, write);
  await assert.rejects(
    store.append(hold, { entries: [entry('model:1')], events: [event(hold.runId, 1)] }),
    { name: 'RunLostError' },
  );
  await store.append(hold, { ...ENDED, entries: [entry('end:2:9')], dropped: ['begin'] });
  assert.deepEqual(await other.read(hold.runId), [entry('step:1'), entry('end:2:9')]);
}

function owed(tenant: string, text: string, second = 0): OwedEntry {
  const at = `2026-01-01T00:00:0${second}.000Z`;
  return { entryId: randomUUID(), at, text: JSON.stringify({ tenant, text }), ...SIGNED };
}

const SIGNED = { keyId: '1', signature: 'ab' };

/** Reads all that is owed page by page, and returns what is the tenant's. */
async function owedOf(store: RunLog, tenant: string): Promise<readonly OwedEntry[]> {
  const all: OwedEntry[] = [];
  for (let page = await store.listOwed({ limit: 2 }); page.length > 0;) {
    all.push(...page);
    const after = page.at(-1);
    page = after ? await store.listOwed({ limit: 2, after }) : [];
  }
  return all.filter(({ text }) => text.includes(JSON.stringify(tenant)));
}

async function keepsOwed({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await begun(store, newRun(tenant));
  const [third, first, second] = [3, 1, 2].map((at) => owed(tenant, `at ${at}`, at));
  assert.ok(first && second && third);
  const awkward = AWKWARD_TEXTS.map((text) => owed(tenant, text, 4)).toSorted((one, another) =>
    one.entryId < another.entryId ? -1 : 1,
  );
  await store.append(hold, { ...NOTHING, entries: [entry('tool:1')], owed: [third] });
  await store.append(hold, { ...NOTHING, owed: [first, ...awkward] });
  for (const one of [store, other]) await one.owe([second, { ...first, text: 'changed' }]);
  await store.append(hold, { ...ENDED, owed: [second] });
  await store.owe([]);
  assert.deepEqual(await owedOf(other, tenant), [first, second, third, ...awkward]);
  assert.deepEqual(
    (await other.read(hold.runId)).map(({ key }) => key),
    ['tool:1'],
  );
  await other.settle([first, third, ...awkward].map(({ entryId }) => entryId));
  assert.deepEqual(await owedOf(store, tenant), [second]);
  for (const one of [store, other]) await one.settle([second.entryId, randomUUID()]);
  assert.deepEqual(await owedOf(store, tenant), []);
}

async function fencesOwed({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await begun(store, newRun(tenant));
  const write = { ...NOTHING, owed: [owed(tenant, 'lost')] };
  const lost = other.append({ ...hold, epoch: hold.epoch + 1 }, write);
  await assert.rejects(lost, { name: 'RunLostError' });
  assert.deepEqual(await owedOf(store, tenant), []);
}

async function keepsEvents({ store, other, tenant }: RunTrial): Promise<void> {
  const run = newRun(tenant);
  const events = Array.from({ length: 30 }, (_, index) =>
    event(run.runId, index + 1, AWKWARD_TEXTS[index % AWKWARD_TEXTS.length]),
  );
  const hold = await begun(store, { ...run, events: events.slice(0, 3) });
  for (let times = 0; times < 2; times += 1)
    await store.append(hold, { entries: [], events: events.slice(3, 20) });
  await store.append(hold, { entries: [], events: events.slice(20) });
  assert.deepEqual(await other.events(hold.runId, { after: 0, limit: 100 }), events);
  assert.deepEqual(await other.events(hold.runId, { after: 7, limit: 3 }), events.slice(7, 10));
  assert.deepEqual(await other.events(hold.runId, { after: 15, limit: 10 }), events.slice(15, 25));
  assert.deepEqual(await other.events(hold.runId, { after: 20, limit: 1 }), events.slice(20, 21));
  assert.deepEqual(await other.events(hold.runId, { after: 30, limit: 10 }), []);
  assert.equal((await other.find(hold.runId))?.lastSequence, 30);
}

const WAITING: RunWrite = { ...NOTHING, ending: { status: 'waiting', finishReason: 'waiting' } };

async function wakesEarly({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await begun(store, newRun(tenant));
  await other.wake(hold.runId);
  assert.equal((await store.find(hold.runId))?.status, 'running');
  await store.append(hold, WAITING);
  assert.equal((await store.find(hold.runId))?.status, 'queued');
  const claim = await acquired(other, hold.runId);
  await other.append(holdOf(claim), WAITING);
  assert.equal((await store.find(hold.runId))?.status, 'waiting');
}

async function cancelsEarly({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await begun(store, newRun(tenant));
  await other.cancel(hold.runId, 'Never mind.');
  await store.append(hold, WAITING);
  assert.equal((await acquire(other, hold.runId))?.cancelled, 'Never mind.');
}

async function wakes(trial: RunTrial): Promise<void> {
  const { store, tenant } = trial;
  const hold = await begun(store, newRun(tenant));
  await store.append(hold, WAITING);
  await atOnce(trial, 8, (one) => one.wake(hold.runId));
  const claims = await atOnce(trial, 8, (one) => acquire(one, hold.runId));
  assert.equal(claims.filter((claim) => claim !== undefined).length, 1);
  await store.wake(randomUUID());
}

async function wakesAtATime({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await begun(store, newRun(tenant));
  await store.append(hold, WAITING);
  const early: string[] = [];
  const claims: (LeasedRun | undefined)[] = [];
  const at = Date.now() + 700;
  const end = await other.work(async (runId) => {
    if (runId !== hold.runId) return;
    if (Date.now() < at - 50) early.push(runId);
    claims.push(await acquire(other, runId));
  }, 1);
  await store.wakeAt(hold.runId, new Date(at));
  await store.wakeAt(randomUUID(), new Date(at));
  while (claims.length === 0) await wait(20);
  await end();
  assert.deepEqual([early, claims.map((run) => run?.epoch)], [[], [hold.epoch + 1]]);
}

async function cancels({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await begun(store, newRun(tenant));
  await other.cancel(hold.runId, 'Never mind.');
  assert.deepEqual(
    (await store.renew([hold], LONG_MS)).map(({ runId, cancelled }) => [runId, cancelled]),
    [[hold.runId, 'Never mind.']],
  );
  await store.append(hold, WAITING);
  await other.cancel(hold.runId, 'Never mind.');
  assert.equal((await store.find(hold.runId))?.status, 'queued');
  const claim = await acquired(store, hold.runId);
  assert.equal(claim.cancelled, 'Never mind.');
  await store.append(holdOf(claim), {
    ...NOTHING,
    ending: { status: 'ended', finishReason: 'aborted' },
  });
  await other.cancel(hold.runId, 'Too late.');
  assert.deepEqual(
    [(await store.find(hold.runId))?.status, (await store.find(hold.runId))?.cancelled],
    ['ended', 'Never mind.'],
  );
}

async function takesOver({ store, other, tenant }: RunTrial): Promise<void> {
  const [silent, told] = [
    await begun(store, newRun(tenant), 50),
    await begun(store, newRun(tenant), 50),
  ];
  const others = await begun(store, suspended(tenant), 1);
  await store.renew([told], LONG_MS);
  await wait(80);
  await other.requeueExpired();
  const statuses = await Promise.all(
    [silent, told, others].map(async ({ runId }) => (await store.find(runId))?.status),
  );
  assert.deepEqual(statuses, ['queued', 'running', 'running']);
  await assert.rejects(store.append(silent, NOTHING), { name: 'RunLostError' });
}

async function releases({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await begun(store, newRun(tenant));
  await other.release({ ...hold, epoch: hold.epoch + 1 });
  assert.equal((await store.find(hold.runId))?.status, 'running');
  await store.release(hold);
  assert.equal((await other.find(hold.runId))?.status, 'queued');
}

async function putsOff({ store, other, tenant }: RunTrial): Promise<void> {
  const run = newRun(tenant);
  const early: string[] = [];
  const claims: (LeasedRun | undefined)[] = [];
  let at = Number.POSITIVE_INFINITY;
  const end = await other.work(async (runId) => {
    if (runId !== run.runId) return;
    if (Date.now() < at - 50) early.push(runId);
    claims.push(await acquire(other, runId));
  }, 1);
  // where one process has the database, the first to work takes over what was under way
  const hold = await begun(store, run);
  at = Date.now() + 700;
  await store.release(hold, { times: 3, until: new Date(at) });
  const { status, putOffs } = (await other.find(hold.runId)) ?? {};
  assert.deepEqual([status, putOffs], ['queued', 3]);
  while (claims.length === 0) await wait(20);
  await end();
  assert.deepEqual([early, claims.map((claim) => claim?.putOffs)], [[], [3]]);
  const [claimed] = claims;
  if (claimed) await store.release(holdOf(claimed));
  assert.equal((await other.find(hold.runId))?.putOffs, undefined);
}

async function wakesPutOff({ store, other, tenant }: RunTrial): Promise<void> {
  const claims: (LeasedRun | undefined)[] = [];
  const putOff = { times: 9, until: new Date(Date.now() + LONG_MS) };
  const runs = [newRun(tenant), newRun(tenant)] as const;
  const own = new Set(runs.map(({ runId }) => runId));
  const end = await other.work(async (runId) => {
    if (own.has(runId)) claims.push(await acquire(other, runId));
  }, 1);
  const holds = [await begun(store, runs[0]), await begun(store, runs[1])] as const;
  for (const hold of holds) await store.release(hold, putOff);
  await store.wake(holds[0].runId);
  await store.cancel(holds[1].runId, 'Never mind.');
  while (claims.length < own.size) await wait(20);
  await end();
  assert.deepEqual(new Set(claims.map((claim) => claim?.runId)), own);
}

/** A run that only its actor resumes. */
function suspended(tenant: string): NewRun {
  const { request: _request, ...run } = newRun(tenant);
  return run;
}

async function waitsForItsActor({ store, other, tenant }: RunTrial): Promise<void> {
  const handed: string[] = [];
  const end = await other.work((runId) => Promise.resolve(void handed.push(runId)), 1);
  const runId = await added(store, { ...suspended(tenant), entries: [entry('wait')] }, 'waiting');
  const statusOf = async (): Promise<string | undefined> => (await other.find(runId))?.status;
  await store.wake(runId);
  await store.wakeAt(runId, new Date());
  await store.cancel(runId, 'Never mind.');
  assert.deepEqual(
    [await statusOf(), (await store.find(runId))?.finishReason],
    ['waiting', 'waiting'],
  );
  const claim = await acquired(other, runId);
  assert.equal(claim.cancelled, 'Never mind.');
  await other.append(holdOf(claim), WAITING);
  assert.equal(await statusOf(), 'waiting');
  const again = await acquired(other, runId);
  await store.renew([holdOf(again)], 0);
  await store.requeueExpired();
  assert.equal(await statusOf(), 'running');
  await other.release(holdOf(again));
  assert.equal(await statusOf(), 'waiting');
  await end();
  assert.deepEqual(
    handed.filter((id) => id === runId),
    [],
  );
}

async function leasesAsExpected(trial: RunTrial): Promise<void> {
  const { store, tenant } = trial;
  const runId = await added(store, suspended(tenant), 'waiting');
  const epoch = (await store.find(runId))?.epoch ?? 0;
  const leased = (await atOnce(trial, 20, (one) => acquire(one, runId, epoch))).filter(
    (run) => run !== undefined,
  );
  const [run, ...others] = leased;
  assert.ok(run);
  assert.deepEqual([run.epoch, others], [epoch + 1, []]);
  await store.append(holdOf(run), WAITING);
  assert.equal(await acquire(store, runId, epoch), undefined);
  const { epoch: now, lease } = (await store.find(runId)) ?? assert.fail('It is not there.');
  assert.deepEqual([now, lease], [epoch + 1, undefined]);
  for (const unknown of [randomUUID(), ...AWKWARD_TEXTS])
    assert.equal(await acquire(store, unknown, epoch), undefined);
}

async function leasesExpired({ store, other, tenant }: RunTrial): Promise<void> {
  const first = await begun(store, suspended(tenant));
  assert.equal(await acquire(other, first.runId, first.epoch), undefined);
  await store.renew([first], 0);
  assert.equal(await acquire(other, first.runId, first.epoch + 1), undefined);
  const second = await acquire(other, first.runId, first.epoch);
  assert.equal(second?.epoch, first.epoch + 1);
  await assert.rejects(store.append(first, NOTHING), { name: 'RunLostError' });
}

async function keepsWaiting({ store, other, tenant }: RunTrial): Promise<void> {
  for (const text of AWKWARD_TEXTS) {
    const runId = await added(
      store,
      { ...suspended(tenant), entries: [entry('wait', text)] },
      'waiting',
    );
    assert.deepEqual(await other.read(runId), [entry('wait', text)]);
    await other.append(holdOf(await acquired(other, runId)), {
      ...WAITING,
      entries: [entry('wait', 'later')],
    });
    assert.deepEqual(await store.read(runId), [entry('wait', 'later')]);
  }
}

async function lists({ store, other, tenant, otherTenant }: RunTrial): Promise<void> {
  const runs: string[] = [];
  for (let index = 0; index < 5; index += 1)
    runs.unshift((await begun(store, newRun(tenant))).runId);
  const { runId: ofMia } = await begun(store, newRun(tenant, 'mia'));
  await begun(store, newRun(otherTenant));
  const page = await other.list({ tenant, actorId: 'alice', limit: 3 });
  const rest = await other.list({
    tenant,
    actorId: 'alice',
    limit: 3,
    after: page.at(-1)?.runId ?? '',
  });
  const ofAlice = [...page, ...rest].map(({ runId }) => runId);
  assert.deepEqual(ofAlice, runs);
  assert.deepEqual(await store.list({ tenant, actorId: 'alice', status: 'ended' }), []);
  const ofAll = [
    ...(await other.list({ tenant, limit: 2 })),
    ...(await other.list({ tenant, after: runs[0] ?? '' })),
  ];
  assert.equal(ofAll.map(({ runId }) => runId).join(' '), [ofMia, ...runs].join(' '));
}

async function watches({ store, other, tenant }: RunTrial): Promise<void> {
  const hold = await begun(store, newRun(tenant));
  const told: string[] = [];
  const end = await other.watch(hold.runId, () => told.push(hold.runId));
  await store.append(hold, { entries: [], events: [event(hold.runId, 1)] });
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
    const claim = await acquire(other, runId);
    if (!claim) return;
    if (handed.length === 1) {
      await other.release(holdOf(claim));
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

/** Runs that one tenant has queued before another queues its only one. */
const BACKLOG = 30;

async function shares({ store, other, tenant, otherTenant }: RunTrial): Promise<void> {
  const queued: string[] = [];
  for (let index = 0; index < BACKLOG; index += 1)
    queued.push(await added(store, newRun(tenant), 'queued'));
  const single = await added(store, newRun(otherTenant), 'queued');
  const later = await added(store, newRun(tenant), 'queued');
  const own = new Set([...queued, single, later]);
  const handed: string[] = [];
  const end = await other.work(async (runId) => {
    const run = await acquire(other, runId);
    if (!run) return;
    if (own.has(runId)) handed.push(runId);
    await other.append(holdOf(run), ENDED);
  }, 1);
  while (handed.length < own.size) await wait(5);
  await end();
  const place = handed.indexOf(single);
  assert.ok(place <= 2, `It was number ${place + 1}.`);
  assert.deepEqual(handed.toSpliced(place, 1), [...queued, later]);
}
