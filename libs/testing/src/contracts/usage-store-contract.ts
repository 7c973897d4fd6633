import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import {
  type UsageAmounts,
  type UsageIncrement,
  type UsageQuery,
  usageSortKey,
  type UsageStore,
  type UsageWindow,
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

/** The behaviour that every `UsageStore` must show. */
export function usageStoreContract(
  name: string,
  make: () => Promise<StoreUnderTest<UsageStore>>,
  runner: ContractRunner,
): void {
  runContract(CONTRACT, name, make, runner);
}

type UsageTrial = Trial<UsageStore>;

/** A window that is longer than any check. */
const DECADE = 10 * 365 * 24 * 3_600_000;
const CALLS: UsageWindow = { quantity: 'calls', windowMs: DECADE };
const TOKENS: UsageWindow = { quantity: 'tokens', windowMs: DECADE };
const USD: UsageWindow = { quantity: 'usd', windowMs: DECADE };

/** A day that is kept, and the one after it. */
const DAY = dayAt(Date.now() - 10 * 86_400_000);
const NEXT = dayAt(Date.now() - 9 * 86_400_000);
const NONE: UsageAmounts = {
  calls: 0,
  answers: 0,
  inputTokens: 0,
  outputTokens: 0,
  usd: 0,
  unpricedAnswers: 0,
};

const CONTRACT: Contract<UsageStore> = {
  port: 'UsageStore',
  cases: [
    { name: 'adds up what many add at once, and loses nothing', check: addsAtOnce },
    { name: 'adds a batch once, however often it is sent and by how many', check: addsBatchOnce },
    {
      name: 'adds an increment with an id once, in whichever batch it comes',
      check: addsIncrementOnce,
    },
    { name: 'keeps the ids of two tenants apart', check: separatesIds },
    { name: 'keeps tenants apart, and filters by actor, tool, model and day', check: filters },
    {
      name: 'reports about all tenants where none is named, and groups by them',
      check: reportsAll,
    },
    { name: 'groups by any dimensions, and leaves out those without a value', check: groups },
    { name: 'orders rows by their dimensions and gives each one once, page by page', check: pages },
    { name: 'keeps apart the names that are awkward', check: keepsNames },
    { name: 'takes back what is added with a minus', check: takesBack },
    { name: 'returns another total of a window to each concurrent caller', check: countsAtOnce },
    {
      name: 'counts a batch in its windows by their quantities, fractions included',
      check: countsQuantities,
    },
    { name: 'keeps the windows of tenants, quantities and lengths apart', check: separatesWindows },
    { name: 'starts at 0 with every window', check: beginsAnew },
    {
      name: 'counts nothing for a batch without increments, and tells the totals',
      check: addsNothing,
    },
  ],
  restart: {
    before: async ({ store, tenant }) => {
      await add(store, tenant, [use({ calls: 3 })], { windows: [CALLS] });
      await add(store, tenant, [use({ id: 'known' })], { batchId: 'known' });
    },
    after: async (store, { tenant }) => {
      await add(store, tenant, [use({ id: 'known' })]);
      await add(store, tenant, [use()], { batchId: 'known' });
      assert.deepEqual(
        [await sumOf(store, tenant), await store.totals(tenant, [CALLS])],
        [{ ...NONE, calls: 4 }, [3]],
      );
    },
  },
};

function dayAt(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** One call, on a day that is kept. */
function use(more: Partial<UsageIncrement> = {}): UsageIncrement {
  return { ...NONE, day: DAY, calls: 1, ...more };
}

function add(
  store: UsageStore,
  tenant: string,
  increments: readonly UsageIncrement[],
  {
    batchId = randomUUID(),
    windows = [],
  }: { readonly batchId?: string; readonly windows?: readonly UsageWindow[] } = {},
): Promise<readonly number[]> {
  return store.add({ batchId, tenant, increments, windows });
}

function report(
  store: UsageStore,
  tenant: string,
  more: Partial<UsageQuery> = {},
): ReturnType<UsageStore['report']> {
  return store.report({ tenant, from: DAY, to: NEXT, groupBy: [], limit: 1_000, ...more });
}

async function sumOf(store: UsageStore, tenant: string): Promise<UsageAmounts | undefined> {
  const [row] = await report(store, tenant);
  return row;
}

async function addsAtOnce(trial: UsageTrial): Promise<void> {
  const { store, other, tenant } = trial;
  const actors = ['ann', 'bob', 'cid'];
  await atOnce(trial, 60, (one, index) =>
    add(one, tenant, [
      use({ actor: actors[index % 3] ?? '', inputTokens: 2 }),
      use({ actor: actors[(index + 1) % 3] ?? '', calls: 0, answers: 1, usd: 0.25 }),
    ]),
  );
  assert.deepEqual(await sumOf(store, tenant), {
    ...NONE,
    calls: 60,
    answers: 60,
    inputTokens: 120,
    usd: 15,
  });
  const rows = await report(other, tenant, { groupBy: ['actor'] });
  assert.deepEqual(
    rows.map(({ actor, calls, answers }) => [actor, calls, answers]),
    actors.map((actor) => [actor, 20, 20]),
  );
}

async function addsBatchOnce(trial: UsageTrial): Promise<void> {
  const { store, tenant } = trial;
  const batchId = randomUUID();
  const totals = await atOnce(trial, 8, (one) =>
    add(one, tenant, [use({ calls: 5 })], { batchId, windows: [CALLS] }),
  );
  assert.deepEqual(
    totals,
    Array.from({ length: 8 }, () => [5]),
  );
  assert.deepEqual(await sumOf(store, tenant), { ...NONE, calls: 5 });
}

async function addsIncrementOnce(trial: UsageTrial): Promise<void> {
  const { store, tenant } = trial;
  await atOnce(trial, 8, (one, index) =>
    add(one, tenant, [use({ id: 'run/call_1' }), use({ id: `run/of ${index}` })], {
      windows: [CALLS],
    }),
  );
  await add(store, tenant, [use({ id: 'twice' }), use({ id: 'twice' })]);
  assert.deepEqual(await sumOf(store, tenant), { ...NONE, calls: 10 });
  assert.deepEqual(await store.totals(tenant, [CALLS]), [9]);
}

async function separatesIds({ store, tenant, otherTenant }: UsageTrial): Promise<void> {
  for (const one of [tenant, otherTenant])
    await add(store, one, [use({ id: 'same' })], { batchId: 'same batch' });
  assert.deepEqual(
    [await sumOf(store, tenant), await sumOf(store, otherTenant)],
    [use0(1), use0(1)],
  );
}

function use0(calls: number): UsageAmounts {
  return { ...NONE, calls };
}

async function filters({ store, other, tenant, otherTenant }: UsageTrial): Promise<void> {
  const given: readonly Partial<UsageIncrement>[] = [
    { actor: 'ann', tool: 'crm__search', model: 'open/a' },
    { actor: 'bob', tool: 'crm__search', model: 'open/b', calls: 10 },
    { actor: 'ann', tool: 'crm__write', day: NEXT, calls: 100 },
    { tool: 'crm__write', calls: 1_000 },
  ];
  await add(store, tenant, given.map(use));
  await add(store, otherTenant, [use({ calls: 7 })]);
  const callsOf = async (more: Partial<UsageQuery>): Promise<number | undefined> =>
    (await report(other, tenant, more))[0]?.calls;
  assert.equal(await callsOf({}), 1_111);
  assert.equal(await callsOf({ actor: 'ann' }), 101);
  assert.equal(await callsOf({ tool: 'crm__search' }), 11);
  assert.equal(await callsOf({ model: 'open/b' }), 10);
  assert.equal(await callsOf({ actor: 'ann', to: DAY }), 1);
  assert.equal(await callsOf({ from: NEXT }), 100);
  assert.equal(await callsOf({ actor: 'cid' }), undefined);
  assert.deepEqual(await report(store, `${tenant} without use`), []);
}

async function reportsAll({ store, other, tenant, otherTenant }: UsageTrial): Promise<void> {
  const actor = randomUUID();
  await add(store, tenant, [use({ actor }), use({ actor, day: NEXT, calls: 2 }), use()]);
  await add(store, otherTenant, [use({ actor, calls: 5 })]);
  const asked = { from: DAY, to: NEXT, actor, limit: 1_000 };
  const rows = [
    { tenant, ...use0(3) },
    { tenant: otherTenant, ...use0(5) },
  ];
  const sorted = rows.toSorted((one, two) =>
    Buffer.compare(Buffer.from(usageSortKey(one.tenant)), Buffer.from(usageSortKey(two.tenant))),
  );
  assert.deepEqual(await other.report({ ...asked, groupBy: ['tenant'] }), sorted);
  assert.deepEqual(
    await other.report({
      ...asked,
      groupBy: ['tenant'],
      limit: 1,
      after: [usageSortKey(sorted[0]?.tenant)],
    }),
    sorted.slice(1),
  );
  assert.deepEqual(await other.report({ ...asked, groupBy: [] }), [use0(8)]);
  assert.deepEqual(await other.report({ ...asked, tenant, groupBy: ['tenant'] }), [
    { tenant, ...use0(3) },
  ]);
}

async function groups({ store, tenant }: UsageTrial): Promise<void> {
  await add(store, tenant, [
    use({ actor: 'ann', tool: 't' }),
    use({ actor: 'ann', calls: 0, answers: 1, unpricedAnswers: 1 }),
    use({ tool: 't', day: NEXT }),
  ]);
  assert.deepEqual(await report(store, tenant, { groupBy: ['tool', 'actor'] }), [
    { actor: 'ann', tool: 't', ...use0(1) },
    { tool: 't', ...use0(1) },
    { actor: 'ann', ...NONE, answers: 1, unpricedAnswers: 1 },
  ]);
  assert.deepEqual(await report(store, tenant, { groupBy: ['day'] }), [
    { day: DAY, ...NONE, calls: 1, answers: 1, unpricedAnswers: 1 },
    { day: NEXT, ...use0(1) },
  ]);
}

async function pages({ store, tenant }: UsageTrial): Promise<void> {
  const names = ['b', 'a', 'ä', 'B', '💶', 'a b'];
  await add(store, tenant, [
    ...names.map((actor) => use({ actor })),
    use({}),
    use({ actor: 'a', day: NEXT }),
  ]);
  const found: (readonly (string | undefined)[])[] = [];
  for (let after: readonly string[] | undefined; ;) {
    const rows = await report(store, tenant, {
      groupBy: ['day', 'actor'],
      limit: 3,
      ...(after && { after }),
    });
    found.push(...rows.map(({ day, actor }) => [day, actor]));
    const last = rows.at(-1);
    if (!last || rows.length < 3) break;
    after = [usageSortKey(last.day), usageSortKey(last.actor)];
  }
  const sorted = names.toSorted((one, two) =>
    Buffer.compare(Buffer.from(usageSortKey(one)), Buffer.from(usageSortKey(two))),
  );
  assert.deepEqual(found, [...sorted.map((name) => [DAY, name]), [DAY, undefined], [NEXT, 'a']]);
}

async function keepsNames({ store, other, tenant }: UsageTrial): Promise<void> {
  await add(
    store,
    tenant,
    AWKWARD_TEXTS.map((text, index) =>
      use({ actor: text, tool: text, model: text, id: text, calls: index + 1 }),
    ),
  );
  for (const [index, text] of AWKWARD_TEXTS.entries()) {
    assert.deepEqual(
      await report(other, tenant, {
        actor: text,
        tool: text,
        model: text,
        groupBy: ['actor', 'tool', 'model'],
      }),
      [{ actor: text, tool: text, model: text, ...use0(index + 1) }],
    );
  }
}

async function takesBack({ store, tenant }: UsageTrial): Promise<void> {
  await add(store, tenant, [use({ calls: 5 })], { windows: [CALLS] });
  assert.deepEqual(await add(store, tenant, [use({ calls: -2 })], { windows: [CALLS] }), [3]);
  assert.deepEqual(await sumOf(store, tenant), use0(3));
}

async function countsAtOnce(trial: UsageTrial): Promise<void> {
  const totals = await atOnce(trial, 40, (store) =>
    add(store, trial.tenant, [use()], { windows: [CALLS] }),
  );
  assert.deepEqual(
    totals.flat().toSorted((a, b) => a - b),
    Array.from({ length: 40 }, (_, index) => index + 1),
  );
}

async function countsQuantities({ store, other, tenant }: UsageTrial): Promise<void> {
  const windows = [USD, CALLS, TOKENS];
  assert.deepEqual(await store.totals(tenant, windows), [0, 0, 0]);
  await add(
    store,
    tenant,
    [use({ usd: 0.25, inputTokens: 3, outputTokens: 4 }), use({ calls: 2 })],
    { windows },
  );
  assert.deepEqual(
    await add(other, tenant, [use({ calls: 0, usd: 0.5 })], { windows: [USD] }),
    [0.75],
  );
  assert.deepEqual(await store.totals(tenant, windows), [0.75, 3, 7]);
}

async function separatesWindows({ store, tenant, otherTenant }: UsageTrial): Promise<void> {
  await add(store, tenant, [use({ calls: 2 })], { windows: [CALLS] });
  assert.deepEqual(await store.totals(otherTenant, [CALLS]), [0]);
  assert.deepEqual(
    await store.totals(tenant, [TOKENS, { ...CALLS, windowMs: DECADE + 1 }, CALLS]),
    [0, 0, 2],
  );
}

async function beginsAnew({ store, tenant }: UsageTrial): Promise<void> {
  const short = { ...CALLS, windowMs: 20 };
  await add(store, tenant, [use({ calls: 3 })], { windows: [short] });
  await wait(45); // two windows later, whenever the first began
  assert.deepEqual(await store.totals(tenant, [short]), [0]);
}

async function addsNothing({ store, tenant }: UsageTrial): Promise<void> {
  await add(store, tenant, [use({ calls: 4 })], { windows: [CALLS] });
  assert.deepEqual(await add(store, tenant, [], { windows: [CALLS] }), [4]);
  assert.deepEqual(await sumOf(store, tenant), use0(4));
}
