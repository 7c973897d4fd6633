import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type {
  CallJournal,
  JournalCall,
  JournalClaim,
  JournalHold,
  JournalOutcome,
  JournalStart,
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

/** The behaviour that every `CallJournal` must show. */
export function callJournalContract(
  name: string,
  make: () => Promise<StoreUnderTest<CallJournal>>,
  runner: ContractRunner,
): void {
  runContract(CONTRACT, name, make, runner);
}

type JournalTrial = Trial<CallJournal>;

/** A lease that is longer than any check. */
const LONG_MS = 600_000;

/** Makes a call by the same owner, unless another is named, with the proof of its first lease. */
function pay(
  tenant: string,
  idempotencyKey: string,
  more: Partial<JournalStart> = {},
): JournalStart & JournalHold {
  return {
    tenant,
    idempotencyKey,
    owner: 'one',
    epoch: 1,
    runId: 'run_1',
    declaredId: 'bank__pay',
    args: '{"amount":5}',
    forMs: LONG_MS,
    ...more,
  };
}

/** The owner of another process. */
const ANOTHER = { owner: 'another' };

function assertAcquired(claim: JournalClaim): void {
  assert.equal(claim.status, 'acquired');
}

function assertInProgress(claim: JournalClaim): void {
  assert.equal(claim.status, 'in_progress');
}

const DONE: JournalOutcome = { status: 'succeeded', content: 'Paid.', ui: { receipt: 1 } };
const FAILED: JournalOutcome = {
  status: 'failed',
  failure: { code: 'execution_failed', safeMessage: 'No money.', retryable: true },
};

const CONTRACT: Contract<CallJournal> = {
  port: 'CallJournal',
  cases: [
    { name: 'gives a key to one of many concurrent callers', check: beginsOnce },
    { name: 'answers with the outcome of a finished call', check: answersWithOutcome },
    { name: 'reports a call that was begun and has not ended', check: saysInProgress },
    { name: 'finds a call that was begun without acquiring it', check: finds },
    { name: 'refuses a key that belongs to another call', check: refusesOtherCalls },
    { name: 'keeps the first outcome', check: keepsFirstOutcome },
    { name: 'releases a key that was not used, and no other', check: releases },
    { name: 'lets the lease of a call in progress be stolen before it expires', check: steals },
    { name: 'reports how long a call may still be in progress', check: saysHowLong },
    ...leaseCases<CallJournal, JournalCall>({
      make: (_store, tenant) => Promise.resolve(pay(tenant, randomUUID())),
      acquire: async (store, call, request) => {
        const claim = await store.acquire({ ...call, ...request, runId: 'run_1' });
        return claim.status === 'acquired' ? claim.lease : undefined;
      },
      steal: (store, call, request) => store.steal(call, request),
      release: (store, call, hold) => store.release({ ...call, ...hold }),
      write: async (store, call, hold) => {
        const outcome: JournalOutcome = {
          status: 'succeeded',
          content: `by ${hold.owner} ${hold.epoch}`,
          ui: null,
        };
        await store.finish({ ...call, ...hold }, outcome);
        return isDeepStrictEqual(await store.find(call), { status: 'finished', outcome });
      },
    }),
    { name: 'keeps tenants apart', check: separatesTenants },
    { name: 'distinguishes keys whatever characters they have', check: tellsKeysApart },
    { name: 'keeps awkward texts', check: keepsAwkwardTexts },
  ],
  restart: {
    before: async ({ store, tenant }) => {
      await store.acquire(pay(tenant, 'done'));
      await store.finish(pay(tenant, 'done'), DONE);
      await store.acquire(pay(tenant, 'open'));
    },
    after: async (store, { tenant }) => {
      assert.deepEqual(await store.acquire(pay(tenant, 'done')), {
        status: 'finished',
        outcome: DONE,
      });
      assertInProgress(await store.acquire(pay(tenant, 'open', ANOTHER)));
    },
  },
};

async function beginsOnce(trial: JournalTrial): Promise<void> {
  const claims = await atOnce(trial, 40, (store) =>
    store.acquire(pay(trial.tenant, 'key', { owner: randomUUID() })),
  );
  const statuses = claims.map(({ status }) => status);
  assert.equal(statuses.filter((status) => status === 'acquired').length, 1);
  assert.equal(statuses.filter((status) => status === 'in_progress').length, 39);
}

async function answersWithOutcome({ store, other, tenant }: JournalTrial): Promise<void> {
  for (const outcome of [DONE, FAILED]) {
    await store.acquire(pay(tenant, outcome.status));
    await store.finish(pay(tenant, outcome.status), outcome);
    assert.deepEqual(await other.acquire(pay(tenant, outcome.status)), {
      status: 'finished',
      outcome,
    });
  }
}

async function saysInProgress({ store, other, tenant }: JournalTrial): Promise<void> {
  assertAcquired(await store.acquire(pay(tenant, 'key')));
  assertInProgress(await other.acquire(pay(tenant, 'key', { runId: 'run_2', ...ANOTHER })));
}

async function finds({ store, other, tenant, otherTenant }: JournalTrial): Promise<void> {
  const call = pay(tenant, 'key', { instanceId: 'a' });
  assert.equal(await other.find(call), undefined);
  assertAcquired(await store.acquire(call));
  assert.equal((await other.find(call))?.status, 'in_progress');
  assert.equal(await other.find({ ...call, args: '{}' }), undefined);
  assert.equal(await other.find({ ...call, tenant: otherTenant }), undefined);
  await store.finish(call, DONE);
  assert.deepEqual(await other.find(call), { status: 'finished', outcome: DONE });
}

async function refusesOtherCalls({ store, other, tenant }: JournalTrial): Promise<void> {
  await store.acquire(pay(tenant, 'key', { instanceId: 'a' }));
  const others: Partial<JournalStart>[] = [
    { instanceId: 'b' },
    { instanceId: 'a', declaredId: 'bank__refund' },
    { instanceId: 'a', args: '{"amount":6}' },
    {},
  ];
  for (const more of others)
    assert.deepEqual(await other.acquire(pay(tenant, 'key', more)), { status: 'conflict' });
  await store.finish(pay(tenant, 'key'), DONE);
  for (const more of others)
    assert.deepEqual(await other.acquire(pay(tenant, 'key', more)), { status: 'conflict' });
}

async function keepsFirstOutcome({ store, other, tenant }: JournalTrial): Promise<void> {
  await store.acquire(pay(tenant, 'key'));
  await store.finish(pay(tenant, 'key'), DONE);
  await other.finish(pay(tenant, 'key'), FAILED);
  await other.finish(pay(tenant, 'was never begun'), FAILED);
  assert.deepEqual(await other.acquire(pay(tenant, 'key')), { status: 'finished', outcome: DONE });
  assertAcquired(await other.acquire(pay(tenant, 'was never begun')));
}

async function releases({ store, other, tenant }: JournalTrial): Promise<void> {
  await store.acquire(pay(tenant, 'open'));
  await other.release(pay(tenant, 'open'));
  assertAcquired(await other.acquire(pay(tenant, 'open', { args: '{}' })));
  await store.acquire(pay(tenant, 'done'));
  await store.finish(pay(tenant, 'done'), DONE);
  await store.release(pay(tenant, 'done'));
  assert.deepEqual(await store.acquire(pay(tenant, 'done')), { status: 'finished', outcome: DONE });
}

async function steals({ store, other, tenant }: JournalTrial): Promise<void> {
  const call = pay(tenant, 'key');
  assert.equal(await store.steal(call, { ...call, ...ANOTHER }), undefined);
  await store.acquire(call);
  assert.equal(
    await other.steal({ ...call, tenant: `${tenant}x` }, { ...call, ...ANOTHER }),
    undefined,
  );
  const lease =
    (await other.steal(call, { ...call, ...ANOTHER })) ?? assert.fail('It was in progress.');
  assert.deepEqual([lease.owner, lease.epoch], ['another', 2]);
  await store.finish(call, FAILED);
  await other.finish({ ...call, ...lease }, DONE);
  assert.deepEqual(await store.acquire(call), { status: 'finished', outcome: DONE });
}

async function saysHowLong({ store, other, tenant }: JournalTrial): Promise<void> {
  const left = async (key: string): Promise<number> => {
    const claim = await other.acquire(pay(tenant, key, { owner: 'asks' }));
    return claim.status === 'in_progress' ? claim.leftMs : -1;
  };
  await store.acquire(pay(tenant, 'long'));
  const ofLong = await left('long');
  assert.ok(ofLong > LONG_MS / 2 && ofLong <= LONG_MS, `${ofLong} of ${LONG_MS} ms are left`);
  await store.acquire(pay(tenant, 'short', { forMs: 1 }));
  await wait(20);
  assert.equal(await left('short'), 0);
  await other.steal(pay(tenant, 'short'), { owner: 'other', forMs: LONG_MS });
  assert.ok((await left('short')) > LONG_MS / 2);
}

async function separatesTenants({ store, tenant, otherTenant }: JournalTrial): Promise<void> {
  await store.acquire(pay(tenant, 'key'));
  assertAcquired(await store.acquire(pay(otherTenant, 'key')));
  await store.finish(pay(otherTenant, 'key'), DONE);
  await store.release(pay(otherTenant, 'key'));
  assertInProgress(await store.acquire(pay(tenant, 'key', ANOTHER)));
}

async function tellsKeysApart({ store, other, tenant }: JournalTrial): Promise<void> {
  for (const key of AWKWARD_TEXTS) assertAcquired(await store.acquire(pay(tenant, key)));
  for (const key of AWKWARD_TEXTS) assertInProgress(await other.acquire(pay(tenant, key, ANOTHER)));
}

async function keepsAwkwardTexts({ store, other, tenant }: JournalTrial): Promise<void> {
  for (const [index, content] of AWKWARD_TEXTS.entries()) {
    const outcome: JournalOutcome = {
      status: 'succeeded',
      content,
      ui: { [content]: [content, null, 0.1, 2 ** 53] },
    };
    await store.acquire(pay(tenant, `key ${index}`, { args: JSON.stringify({ content }) }));
    await store.finish(pay(tenant, `key ${index}`), outcome);
    const claim = await other.acquire(
      pay(tenant, `key ${index}`, { args: JSON.stringify({ content }) }),
    );
    assert.deepEqual(claim, { status: 'finished', outcome });
  }
}
