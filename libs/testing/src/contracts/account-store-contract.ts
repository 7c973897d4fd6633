import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import type {
  AccountAddition,
  AccountKey,
  AccountStore,
  SessionAccount,
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

/** The behaviour that every `AccountStore` must show. */
export function accountStoreContract(
  name: string,
  make: () => Promise<StoreUnderTest<AccountStore>>,
  runner: ContractRunner,
): void {
  runContract(CONTRACT, name, make, runner);
}

type AccountTrial = Trial<AccountStore>;

const AN_HOUR = 3_600_000;
const EMPTY: SessionAccount = { isTainted: false, hasReadPrivate: false, refusals: 0, counts: {} };

function add(
  store: AccountStore,
  tenant: string,
  addition: AccountAddition = {},
  { keptMs = AN_HOUR, ...key }: Partial<AccountKey> & { readonly keptMs?: number } = {},
): Promise<SessionAccount> {
  return store.add({ tenant, actorId: 'alice', scope: 'desk', ...key }, addition, keptMs);
}

const CONTRACT: Contract<AccountStore> = {
  port: 'AccountStore',
  cases: [
    { name: 'begins empty, and keeps what was read for good', check: keepsLabels },
    {
      name: 'loses no addition of those who add at once, and tells each of them another total',
      check: countsAtOnce,
    },
    { name: 'counts fractions and amounts under any name', check: countsParts },
    { name: 'counts refusals in a row, until a call that is not refused', check: countsRefusals },
    { name: 'keeps tenants, actors and scopes apart, whatever they are called', check: separates },
    { name: 'begins anew once nothing was added for as long as it was to be kept', check: expires },
    { name: 'is kept for longer where it is read', check: isKeptByReading },
  ],
  restart: {
    before: async ({ store, tenant }) =>
      void (await add(store, tenant, { isTainted: true, counts: { calls: 2 } })),
    after: async (store, { tenant }) =>
      assert.deepEqual(await add(store, tenant), {
        ...EMPTY,
        isTainted: true,
        counts: { calls: 2 },
      }),
  },
};

async function keepsLabels({ store, other, tenant }: AccountTrial): Promise<void> {
  assert.deepEqual(await add(store, tenant), EMPTY);
  assert.deepEqual(await add(other, tenant, { isTainted: true }), { ...EMPTY, isTainted: true });
  assert.deepEqual(await add(store, tenant, { hasReadPrivate: true }), {
    ...EMPTY,
    isTainted: true,
    hasReadPrivate: true,
  });
  assert.deepEqual(await add(other, tenant), { ...EMPTY, isTainted: true, hasReadPrivate: true });
}

async function countsAtOnce(trial: AccountTrial): Promise<void> {
  const { store, tenant } = trial;
  const accounts = await atOnce(trial, 40, (one, index) =>
    add(one, tenant, {
      counts: { calls: 1 },
      isRefused: true,
      ...(index === 7 && { isTainted: true }),
    }),
  );
  const expected = Array.from({ length: 40 }, (_, index) => index + 1);
  assert.deepEqual(accounts.map(({ counts }) => counts['calls']).toSorted(ascending), expected);
  assert.deepEqual(accounts.map(({ refusals }) => refusals).toSorted(ascending), expected);
  assert.deepEqual(await add(store, tenant), {
    isTainted: true,
    hasReadPrivate: false,
    refusals: 40,
    counts: { calls: 40 },
  });
}

function ascending(a = 0, b = 0): number {
  return a - b;
}

async function countsParts({ store, other, tenant }: AccountTrial): Promise<void> {
  const names = [
    'usd',
    '["sum",["pay__*"],"/amount"]',
    '__proto__',
    "'; drop table x; --",
    'żółć 漢字',
  ];
  const counts = Object.fromEntries(names.map((name) => [name, 0.25]));
  await add(store, tenant, { counts });
  const { counts: twice } = await add(other, tenant, { counts });
  assert.deepEqual(new Map(Object.entries(twice)), new Map(names.map((name) => [name, 0.5])));
  const { counts: more } = await add(store, tenant, { counts: { usd: 1e12, calls: 1 } });
  assert.equal(more['usd'], 1e12 + 0.5);
  assert.equal(more['calls'], 1);
}

async function countsRefusals({ store, other, tenant }: AccountTrial): Promise<void> {
  await add(store, tenant, { isRefused: true });
  assert.equal((await add(other, tenant, { isRefused: true })).refusals, 2);
  assert.equal((await add(store, tenant, { counts: { calls: 1 } })).refusals, 2);
  assert.equal((await add(other, tenant, { isRefused: false })).refusals, 0);
  assert.equal((await add(store, tenant, { isRefused: true })).refusals, 1);
}

async function separates({ store, tenant, otherTenant }: AccountTrial): Promise<void> {
  await add(store, tenant, { isTainted: true });
  assert.deepEqual(await add(store, otherTenant), EMPTY);
  for (const text of AWKWARD_TEXTS) {
    assert.deepEqual(await add(store, tenant, { isTainted: true }, { scope: text, actorId: 'a' }), {
      ...EMPTY,
      isTainted: true,
    });
    assert.deepEqual(await add(store, tenant, {}, { actorId: text, scope: 'a' }), EMPTY);
  }
}

async function expires({ store, other, tenant }: AccountTrial): Promise<void> {
  await add(
    store,
    tenant,
    { isTainted: true, hasReadPrivate: true, isRefused: true, counts: { calls: 3 } },
    { keptMs: 20 },
  );
  await wait(60);
  assert.deepEqual(await add(other, tenant, { counts: { calls: 1 } }), {
    ...EMPTY,
    counts: { calls: 1 },
  });
}

async function isKeptByReading({ store, other, tenant }: AccountTrial): Promise<void> {
  await add(store, tenant, { isTainted: true }, { keptMs: 1_000 });
  await add(other, tenant, {}, { keptMs: AN_HOUR });
  await wait(1_100);
  assert.equal((await add(store, tenant)).isTainted, true);
}
