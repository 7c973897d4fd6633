import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import {
  KEPT_POLICY_VERSIONS,
  POLICY_TRUST_MS,
  type PolicySign,
  type PolicyState,
  type PolicyStop,
  type PolicyStore,
  type PolicyVersion,
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

/** The behaviour that every `PolicyStore` must show. */
export function policyStoreContract(
  name: string,
  make: () => Promise<StoreUnderTest<PolicyStore>>,
  runner: ContractRunner,
): void {
  runContract(CONTRACT, name, make, runner);
}

type PolicyTrial = Trial<PolicyStore>;

const CONTRACT: Contract<PolicyStore> = {
  port: 'PolicyStore',
  cases: [
    { name: 'keeps a version as it was put, whatever texts are in it', check: keepsAsPut },
    { name: 'adds the next version of a scope, and no other', check: addsTheNext },
    { name: 'lets one of any number add a version that all add at once', check: addsOnce },
    {
      name: 'keeps the scopes of tenants apart from each other and from that of all',
      check: separates,
    },
    { name: 'lists versions in pages, the newest first', check: lists },
    { name: 'keeps the last thousand versions of a scope', check: forgets },
    { name: 'knows no version of a number that no one can have put', check: knowsNone },
    { name: 'reads of each scope the newest version, if it was put since', check: readsSince },
    {
      name: 'has a stop in force until it is released, once however often it is put',
      check: stops,
    },
    { name: 'gives every change a higher revision', check: counts },
    {
      name: 'tells a sign at once, and within a second of a change of another process',
      check: tells,
    },
    { name: 'tells nothing any more once the watch has ended', check: endsWatch },
  ],
  restart: {
    before: async ({ store, tenant }) => {
      await store.add(version({ tenant }));
      await store.stop(stop({ tenant, stopId: tenant }));
    },
    after: async (store, { tenant }) => {
      const state = await ofTenant(store, tenant);
      assert.equal(state.versions[0]?.reason, 'Because.');
      assert.equal(state.stops[0]?.stopId, tenant);
    },
  },
};

function version(more: Partial<PolicyVersion>): PolicyVersion {
  return {
    number: 1,
    policies: [{ allow: ['*'] }],
    author: 'ops',
    reason: 'Because.',
    at: new Date(0).toISOString(),
    ...more,
  };
}

function stop(more: Partial<PolicyStop>): PolicyStop {
  return {
    stopId: randomUUID(),
    author: 'ops',
    reason: 'Because.',
    at: new Date(0).toISOString(),
    ...more,
  };
}

/** A client may name any number. */
async function knowsNone({ store, tenant }: PolicyTrial): Promise<void> {
  await store.add(version({ tenant }));
  for (const number of [2 ** 31, Number.MAX_SAFE_INTEGER]) {
    assert.equal(await store.find({ tenant }, number), undefined);
    assert.equal(await store.add(version({ tenant, number })), false);
    assert.deepEqual(
      (await store.list({ tenant, limit: 10, before: number })).map((one) => one.number),
      [1],
    );
  }
}

/** The part of what is in force that is about a tenant of this check. */
async function ofTenant(store: PolicyStore, tenant: string, since = 0): Promise<PolicyState> {
  const { revision, versions, stops: all } = await store.read(since);
  const isOurs = (one: { readonly tenant?: string }): boolean => one.tenant === tenant;
  return { revision, versions: versions.filter(isOurs), stops: all.filter(isOurs) };
}

async function keepsAsPut({ store, other, tenant }: PolicyTrial): Promise<void> {
  const policies = [
    { version: AWKWARD_TEXTS.join(''), allow: [...AWKWARD_TEXTS], flow: 'taint' as const },
    { allow: [], shadow: true },
  ];
  const endorsed = AWKWARD_TEXTS.map((value) => ({ tool: 'mail__send', argument: 'to', value }));
  const put = version({
    tenant,
    policies,
    endorsed,
    author: AWKWARD_TEXTS.join(' '),
    reason: AWKWARD_TEXTS.join(' '),
  });
  assert.equal(await store.add(put), true);
  assert.deepEqual(await other.find({ tenant }, 1), put);
  const ofApplication = version({ tenant, number: 2, rollbackOf: 0 });
  const { policies: _without, ...rolledBack } = ofApplication;
  assert.equal(await store.add(rolledBack), true);
  assert.deepEqual((await ofTenant(other, tenant)).versions, [rolledBack]);
}

async function addsTheNext({ store, other, tenant }: PolicyTrial): Promise<void> {
  assert.equal(await store.add(version({ tenant, number: 2 })), false);
  assert.equal(await store.add(version({ tenant, number: 1 })), true);
  assert.equal(await other.add(version({ tenant, number: 1, reason: 'Another.' })), false);
  assert.equal(await other.add(version({ tenant, number: 3 })), false);
  assert.equal(await other.add(version({ tenant, number: 2 })), true);
  assert.equal((await store.find({ tenant }, 1))?.reason, 'Because.');
  assert.equal(await store.find({ tenant }, 3), undefined);
}

async function addsOnce(trial: PolicyTrial): Promise<void> {
  const { tenant } = trial;
  const added = await atOnce(trial, 20, (store, index) =>
    store.add(version({ tenant, reason: `The ${index}th.` })),
  );
  assert.equal(added.filter(Boolean).length, 1);
  assert.equal((await trial.other.find({ tenant }, 1))?.reason, `The ${added.indexOf(true)}th.`);
}

async function separates({ store, tenant, otherTenant }: PolicyTrial): Promise<void> {
  await store.add(version({ tenant }));
  assert.equal(await store.find({ tenant: otherTenant }, 1), undefined);
  assert.equal(await store.add(version({ tenant: otherTenant, reason: 'Of another.' })), true);
  const [last] = await store.list({ limit: 1 });
  assert.equal(last?.tenant, undefined);
  const { tenant: _of, ...everywhere } = version({
    number: (last?.number ?? 0) + 1,
    reason: tenant,
  });
  assert.equal(await store.add(everywhere), true);
  assert.equal((await store.list({ limit: 1 }))[0]?.reason, tenant);
  assert.equal((await store.find({ tenant }, 1))?.reason, 'Because.');
  assert.equal(await store.find({ tenant: 'null' }, 1), undefined);
}

async function lists({ store, other, tenant }: PolicyTrial): Promise<void> {
  for (const number of [1, 2, 3, 4, 5]) await store.add(version({ tenant, number }));
  const numbers = async (page: {
    readonly limit: number;
    readonly before?: number;
  }): Promise<number[]> => (await other.list({ tenant, ...page })).map((one) => one.number);
  assert.deepEqual(await numbers({ limit: 2 }), [5, 4]);
  assert.deepEqual(await numbers({ limit: 2, before: 4 }), [3, 2]);
  assert.deepEqual(await numbers({ limit: 10, before: 2 }), [1]);
  assert.deepEqual(await numbers({ limit: 10, before: 1 }), []);
}

async function forgets({ store, tenant }: PolicyTrial): Promise<void> {
  for (let number = 1; number <= KEPT_POLICY_VERSIONS + 2; number += 1)
    await store.add(version({ tenant, number }));
  assert.equal(await store.find({ tenant }, 2), undefined);
  assert.equal((await store.find({ tenant }, 3))?.number, 3);
  assert.equal(
    (await store.list({ tenant, limit: 2 * KEPT_POLICY_VERSIONS })).length,
    KEPT_POLICY_VERSIONS,
  );
}

async function readsSince({ store, other, tenant, otherTenant }: PolicyTrial): Promise<void> {
  await store.add(version({ tenant }));
  await store.add(version({ tenant, number: 2 }));
  const { revision, versions } = await ofTenant(other, tenant);
  assert.deepEqual(
    versions.map(({ number }) => number),
    [2],
  );
  assert.deepEqual((await ofTenant(other, tenant, revision)).versions, []);
  await store.add(version({ tenant: otherTenant }));
  assert.deepEqual((await ofTenant(other, tenant, revision)).versions, []);
  assert.equal((await ofTenant(other, otherTenant, revision)).versions.length, 1);
}

async function stops({ store, other, tenant }: PolicyTrial): Promise<void> {
  const one = stop({ tenant, tool: 'crm__search', reason: AWKWARD_TEXTS.join(' ') });
  await store.stop(one);
  await other.stop(one);
  const { revision, stops: inForce } = await ofTenant(other, tenant);
  assert.deepEqual(inForce, [one]);
  assert.deepEqual((await ofTenant(other, tenant, revision)).stops, [one]); // however old it is
  assert.equal(await other.release(one.stopId), true);
  assert.equal(await store.release(one.stopId), false);
  assert.deepEqual((await ofTenant(store, tenant)).stops, []);
}

async function counts({ store, other, tenant }: PolicyTrial): Promise<void> {
  const one = stop({ tenant });
  const changes = [
    () => store.add(version({ tenant })),
    () => other.stop(one),
    () => store.release(one.stopId),
  ];
  let before = (await store.read(0)).revision;
  for (const change of changes) {
    await change();
    const { revision } = await other.read(0);
    assert.ok(revision > before);
    before = revision;
  }
}

/** Waits for a sign of at least this revision. */
async function signOf(
  signs: readonly PolicySign[],
  revision: number,
): Promise<PolicySign | undefined> {
  for (let waited = 0; waited < 1_000; waited += 10) {
    const sign = signs.find((one) => one.revision >= revision);
    if (sign) return sign;
    await wait(10);
  }
  return undefined;
}

async function tells({ store, other, tenant }: PolicyTrial): Promise<void> {
  const signs: PolicySign[] = [];
  const end = await other.watch((sign) => void signs.push(sign));
  try {
    const first = await signOf(signs, 0);
    assert.ok(first && (first.forMs === Infinity || first.forMs <= POLICY_TRUST_MS));
    await store.stop(stop({ tenant }));
    const { revision } = await store.read(0);
    assert.ok(await signOf(signs, revision));
  } finally {
    await end();
  }
}

async function endsWatch({ store, other, tenant }: PolicyTrial): Promise<void> {
  const signs: PolicySign[] = [];
  const end = await other.watch((sign) => void signs.push(sign));
  await signOf(signs, 0);
  await end();
  await wait(50); // for a look that was under way
  const before = signs.length;
  await store.stop(stop({ tenant }));
  await wait(700);
  assert.equal(signs.length, before);
}
