import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import type { QuotaStore, QuotaUse } from '@toolloop/core/stores';
import { atOnce, runContract, type Contract, type ContractRunner, type StoreUnderTest, type Trial } from './contract.js';

type QuotaTrial = Trial<QuotaStore>;

/** The behaviour that every `QuotaStore` must show. */
export function quotaStoreContract(name: string, make: () => Promise<StoreUnderTest<QuotaStore>>, runner: ContractRunner): void {
  runContract(CONTRACT, name, make, runner);
}

/** A window that is longer than any check. */
const DECADE = 10 * 365 * 24 * 3_600_000;

function use(store: QuotaStore, tenant: string, amount: number, more: Partial<QuotaUse> = {}): Promise<number> {
  return store.use({ tenant, quantity: 'calls', windowMs: DECADE, amount, ...more });
}

const CONTRACT: Contract<QuotaStore> = {
  port: 'QuotaStore',
  cases: [
    { name: 'returns another total to each concurrent caller', check: countsAtOnce },
    { name: 'counts fractions, and reads the total with 0', check: countsParts },
    { name: 'keeps tenants, quantities and windows apart', check: separates },
    { name: 'starts at 0 with every window', check: beginsAnew },
  ],
  restart: {
    before: async ({ store, tenant }) => void (await use(store, tenant, 3)),
    after: async (store, { tenant }) => assert.equal(await use(store, tenant, 0), 3),
  },
};

async function countsAtOnce(trial: QuotaTrial): Promise<void> {
  const totals = await atOnce(trial, 40, (store) => use(store, trial.tenant, 1));
  assert.deepEqual(
    totals.toSorted((a, b) => a - b),
    Array.from({ length: 40 }, (_, index) => index + 1),
  );
}

async function countsParts({ store, other, tenant }: QuotaTrial): Promise<void> {
  assert.equal(await use(store, tenant, 0, { quantity: 'usd' }), 0);
  await use(store, tenant, 0.25, { quantity: 'usd' });
  assert.equal(await use(other, tenant, 0.5, { quantity: 'usd' }), 0.75);
  assert.equal(await use(store, tenant, 0, { quantity: 'usd' }), 0.75);
}

async function separates({ store, tenant, otherTenant }: QuotaTrial): Promise<void> {
  await use(store, tenant, 2);
  assert.equal(await use(store, otherTenant, 0), 0);
  assert.equal(await use(store, tenant, 0, { quantity: 'tokens' }), 0);
  assert.equal(await use(store, tenant, 0, { windowMs: DECADE + 1 }), 0);
  assert.equal(await use(store, tenant, 0), 2);
}

async function beginsAnew({ store, tenant }: QuotaTrial): Promise<void> {
  await use(store, tenant, 3, { windowMs: 20 });
  await wait(45); // two windows later, whenever the first began
  assert.equal(await use(store, tenant, 0, { windowMs: 20 }), 0);
}
