import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { SuspendedRun, SuspendedRunStore } from '@toolloop/core/stores';
import { atOnce, AWKWARD_TEXTS, runContract, type Contract, type ContractRunner, type StoreUnderTest, type Trial } from './contract.js';

type RunTrial = Trial<SuspendedRunStore>;

/** The behaviour that every `SuspendedRunStore` must show. */
export function suspendedRunStoreContract(
  name: string,
  make: () => Promise<StoreUnderTest<SuspendedRunStore>>,
  runner: ContractRunner,
): void {
  runContract(CONTRACT, name, make, runner);
}

function run(tenant: string, words = 'x'): SuspendedRun {
  return { version: 2, runId: randomUUID(), tenant, actorId: 'alice', content: { words, [words]: [words, null, 1] } };
}

const CONTRACT: Contract<SuspendedRunStore> = {
  port: 'SuspendedRunStore',
  cases: [
    { name: 'finds what was saved as it was', check: findsIt },
    { name: 'knows nothing of an id that was never given', check: knowsNothing },
    { name: 'gives a run to one of many who take it at once', check: takenOnce },
    { name: 'keeps what was saved last', check: keepsLast },
    { name: 'keeps texts that are awkward', check: keepsAwkwardTexts },
  ],
  restart: {
    before: ({ store, tenant }) => store.save({ ...run(tenant), runId: tenant }),
    after: async (store, { tenant }) => assert.equal((await store.take(tenant))?.tenant, tenant),
  },
};

async function findsIt({ store, other, tenant }: RunTrial): Promise<void> {
  const saved = run(tenant);
  await store.save(saved);
  assert.deepEqual(await other.find(saved.runId), saved);
  assert.deepEqual(await other.take(saved.runId), saved);
  assert.equal(await store.find(saved.runId), undefined);
}

async function knowsNothing({ store }: RunTrial): Promise<void> {
  for (const runId of [randomUUID(), ...AWKWARD_TEXTS])
    assert.deepEqual([await store.find(runId), await store.take(runId)], [undefined, undefined]);
}

async function takenOnce(trial: RunTrial): Promise<void> {
  const saved = run(trial.tenant);
  await trial.store.save(saved);
  const taken = await atOnce(trial, 20, (store) => store.take(saved.runId));
  assert.deepEqual(
    taken.filter((one) => one !== undefined),
    [saved],
  );
}

async function keepsLast({ store, other, tenant }: RunTrial): Promise<void> {
  const saved = run(tenant);
  await store.save(saved);
  await other.save({ ...saved, content: { words: 'later' } });
  assert.deepEqual((await store.find(saved.runId))?.content, { words: 'later' });
}

async function keepsAwkwardTexts({ store, other, tenant }: RunTrial): Promise<void> {
  for (const text of AWKWARD_TEXTS) {
    const saved = run(tenant, text);
    await store.save(saved);
    assert.deepEqual(await other.find(saved.runId), saved);
  }
}
