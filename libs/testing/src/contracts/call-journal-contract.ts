import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { CallJournal, JournalClaim, JournalOutcome, JournalStart } from '@toolloop/core/stores';
import { atOnce, AWKWARD_TEXTS, runContract, type Contract, type ContractRunner, type StoreUnderTest, type Trial } from './contract.js';

type JournalTrial = Trial<CallJournal>;

/** The behaviour that every `CallJournal` must show. */
export function callJournalContract(name: string, make: () => Promise<StoreUnderTest<CallJournal>>, runner: ContractRunner): void {
  runContract(CONTRACT, name, make, runner);
}

/** Longer than any check takes. */
const LONG_MS = 600_000;

/** A start by the same claim, unless another is named. */
function pay(tenant: string, idempotencyKey: string, more: Partial<JournalStart> = {}): JournalStart {
  return {
    tenant,
    idempotencyKey,
    claimId: 'one',
    runId: 'run_1',
    declaredId: 'bank__pay',
    args: '{"amount":5}',
    mostMs: LONG_MS,
    ...more,
  };
}

/** Of somebody else. */
const ANOTHER = { claimId: 'another' };

function assertInProgress(claim: JournalClaim): void {
  assert.equal(claim.status, 'in_progress');
}

const DONE: JournalOutcome = { status: 'succeeded', content: 'Paid.', ui: { receipt: 1 } };
const FAILED: JournalOutcome = { status: 'failed', failure: { code: 'execution_failed', safeMessage: 'No money.', retryable: true } };

const CONTRACT: Contract<CallJournal> = {
  port: 'CallJournal',
  cases: [
    { name: 'gives a key to one of many who begin at once', check: beginsOnce },
    { name: 'answers with what became of the call', check: answersWithOutcome },
    { name: 'says that a call was begun and has not ended', check: saysInProgress },
    { name: 'knows the same claim again, as after an answer that was lost', check: knowsItsClaim },
    { name: 'finds a call that was begun, and takes nothing', check: finds },
    { name: 'refuses a key that belongs to another call', check: refusesOtherCalls },
    { name: 'keeps the first outcome', check: keepsFirstOutcome },
    { name: 'gives back a key that was not used, and no other', check: releases },
    { name: 'takes nothing from who has lost the key to somebody else', check: fences },
    { name: 'lets somebody else take over what is in progress, and nothing that has ended', check: takesOver },
    { name: 'says how long a call may still be in progress', check: saysHowLong },
    { name: 'keeps tenants apart', check: separatesTenants },
    { name: 'tells keys apart whatever is in them', check: tellsKeysApart },
    { name: 'keeps texts that are awkward', check: keepsAwkwardTexts },
  ],
  restart: {
    before: async ({ store, tenant }) => {
      await store.begin(pay(tenant, 'done'));
      await store.finish(pay(tenant, 'done'), DONE);
      await store.begin(pay(tenant, 'open'));
    },
    after: async (store, { tenant }) => {
      assert.deepEqual(await store.begin(pay(tenant, 'done')), { status: 'finished', outcome: DONE });
      assertInProgress(await store.begin(pay(tenant, 'open', ANOTHER)));
    },
  },
};

async function beginsOnce(trial: JournalTrial): Promise<void> {
  const claims = await atOnce(trial, 40, (store) => store.begin(pay(trial.tenant, 'key', { claimId: randomUUID() })));
  const statuses = claims.map(({ status }) => status);
  assert.equal(statuses.filter((status) => status === 'started').length, 1);
  assert.equal(statuses.filter((status) => status === 'in_progress').length, 39);
}

async function answersWithOutcome({ store, other, tenant }: JournalTrial): Promise<void> {
  for (const outcome of [DONE, FAILED]) {
    await store.begin(pay(tenant, outcome.status));
    await store.finish(pay(tenant, outcome.status), outcome);
    assert.deepEqual(await other.begin(pay(tenant, outcome.status)), { status: 'finished', outcome });
  }
}

async function saysInProgress({ store, other, tenant }: JournalTrial): Promise<void> {
  assert.deepEqual(await store.begin(pay(tenant, 'key')), { status: 'started' });
  assertInProgress(await other.begin(pay(tenant, 'key', { runId: 'run_2', ...ANOTHER })));
}

async function knowsItsClaim({ store, other, tenant }: JournalTrial): Promise<void> {
  const call = pay(tenant, 'key');
  assert.deepEqual(await store.begin(call), { status: 'started' });
  assert.deepEqual(await other.begin(call), { status: 'started' });
  assertInProgress(await other.begin({ ...call, ...ANOTHER }));
  await store.finish(call, DONE);
  assert.deepEqual(await other.begin(call), { status: 'finished', outcome: DONE });
}

async function finds({ store, other, tenant, otherTenant }: JournalTrial): Promise<void> {
  const call = pay(tenant, 'key', { instanceId: 'a' });
  assert.equal(await other.find(call), undefined);
  assert.deepEqual(await store.begin(call), { status: 'started' });
  assert.equal((await other.find(call))?.status, 'in_progress');
  assert.equal(await other.find({ ...call, args: '{}' }), undefined);
  assert.equal(await other.find({ ...call, tenant: otherTenant }), undefined);
  await store.finish(call, DONE);
  assert.deepEqual(await other.find(call), { status: 'finished', outcome: DONE });
}

async function refusesOtherCalls({ store, other, tenant }: JournalTrial): Promise<void> {
  await store.begin(pay(tenant, 'key', { instanceId: 'a' }));
  const others: Partial<JournalStart>[] = [
    { instanceId: 'b' },
    { instanceId: 'a', declaredId: 'bank__refund' },
    { instanceId: 'a', args: '{"amount":6}' },
    {},
  ];
  for (const more of others) assert.deepEqual(await other.begin(pay(tenant, 'key', more)), { status: 'conflict' });
  await store.finish(pay(tenant, 'key'), DONE);
  for (const more of others) assert.deepEqual(await other.begin(pay(tenant, 'key', more)), { status: 'conflict' });
}

async function keepsFirstOutcome({ store, other, tenant }: JournalTrial): Promise<void> {
  await store.begin(pay(tenant, 'key'));
  await store.finish(pay(tenant, 'key'), DONE);
  await other.finish(pay(tenant, 'key'), FAILED);
  await other.finish(pay(tenant, 'nobody began it'), FAILED);
  assert.deepEqual(await other.begin(pay(tenant, 'key')), { status: 'finished', outcome: DONE });
  assert.deepEqual(await other.begin(pay(tenant, 'nobody began it')), { status: 'started' });
}

async function releases({ store, other, tenant }: JournalTrial): Promise<void> {
  await store.begin(pay(tenant, 'open'));
  await other.release(pay(tenant, 'open'));
  assert.deepEqual(await other.begin(pay(tenant, 'open', { args: '{}' })), { status: 'started' });
  await store.begin(pay(tenant, 'done'));
  await store.finish(pay(tenant, 'done'), DONE);
  await store.release(pay(tenant, 'done'));
  assert.deepEqual(await store.begin(pay(tenant, 'done')), { status: 'finished', outcome: DONE });
}

async function fences({ store, other, tenant }: JournalTrial): Promise<void> {
  const [first, second, third] = ['first', 'second', 'third'].map((claimId) => pay(tenant, 'key', { claimId }));
  assert.ok(first && second && third);
  await store.begin(first);
  assert.equal(await other.takeOver({ ...second, claimId: 'person' }, LONG_MS), true);
  await store.release(first);
  assertInProgress(await other.begin(second));
  await other.release({ ...second, claimId: 'person' });
  assert.deepEqual(await other.begin(second), { status: 'started' });
  await store.release(first); // late
  await store.finish(first, FAILED);
  assertInProgress(await store.begin(third));
  await other.finish(second, DONE);
  assert.deepEqual(await store.begin(third), { status: 'finished', outcome: DONE });
}

async function takesOver({ store, other, tenant }: JournalTrial): Promise<void> {
  const [first, second] = ['first', 'second'].map((claimId) => pay(tenant, 'key', { claimId }));
  assert.ok(first && second);
  assert.equal(await store.takeOver(second, LONG_MS), false);
  await store.begin(first);
  assert.equal(await other.takeOver({ ...second, tenant: `${tenant}x` }, LONG_MS), false);
  assert.equal(await other.takeOver(second, LONG_MS), true);
  await other.finish(second, DONE);
  assert.equal(await store.takeOver(first, LONG_MS), false);
  assert.deepEqual(await store.begin(first), { status: 'finished', outcome: DONE });
}

async function saysHowLong({ store, other, tenant }: JournalTrial): Promise<void> {
  const left = async (key: string): Promise<number> => {
    const claim = await other.begin(pay(tenant, key, { claimId: 'asks' }));
    return claim.status === 'in_progress' ? claim.leftMs : -1;
  };
  await store.begin(pay(tenant, 'long'));
  const ofLong = await left('long');
  assert.ok(ofLong > LONG_MS / 2 && ofLong <= LONG_MS, `${ofLong} of ${LONG_MS} ms are left`);
  await store.begin(pay(tenant, 'short', { mostMs: 1 }));
  await wait(20);
  assert.equal(await left('short'), 0);
  await other.takeOver(pay(tenant, 'short', { claimId: 'other' }), LONG_MS);
  assert.ok((await left('short')) > LONG_MS / 2);
}

async function separatesTenants({ store, tenant, otherTenant }: JournalTrial): Promise<void> {
  await store.begin(pay(tenant, 'key'));
  assert.deepEqual(await store.begin(pay(otherTenant, 'key')), { status: 'started' });
  await store.finish(pay(otherTenant, 'key'), DONE);
  await store.release(pay(otherTenant, 'key'));
  assertInProgress(await store.begin(pay(tenant, 'key', ANOTHER)));
}

async function tellsKeysApart({ store, other, tenant }: JournalTrial): Promise<void> {
  for (const key of AWKWARD_TEXTS) assert.deepEqual(await store.begin(pay(tenant, key)), { status: 'started' });
  for (const key of AWKWARD_TEXTS) assertInProgress(await other.begin(pay(tenant, key, ANOTHER)));
}

async function keepsAwkwardTexts({ store, other, tenant }: JournalTrial): Promise<void> {
  for (const [index, content] of AWKWARD_TEXTS.entries()) {
    const outcome: JournalOutcome = { status: 'succeeded', content, ui: { [content]: [content, null, 0.1, 2 ** 53] } };
    await store.begin(pay(tenant, `key ${index}`, { args: JSON.stringify({ content }) }));
    await store.finish(pay(tenant, `key ${index}`), outcome);
    const claim = await other.begin(pay(tenant, `key ${index}`, { args: JSON.stringify({ content }) }));
    assert.deepEqual(claim, { status: 'finished', outcome });
  }
}
