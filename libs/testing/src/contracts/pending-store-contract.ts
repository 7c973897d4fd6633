import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type {
  Pending,
  PendingAnswer,
  PendingApproval,
  PendingOf,
  PendingStore,
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

/** The behaviour that every `PendingStore` must show. */
export function pendingStoreContract(
  name: string,
  make: () => Promise<StoreUnderTest<PendingStore>>,
  runner: ContractRunner,
): void {
  runContract(CONTRACT, name, make, runner);
}

type PendingTrial = Trial<PendingStore>;

function record(
  tenant: string,
  more: {
    readonly runId?: string;
    readonly reason?: string;
    readonly conversation?: string;
    readonly noticeAt?: string;
  } = {},
): PendingApproval {
  const { runId = `run_${randomUUID()}`, reason = 'It is dear.', conversation, noticeAt } = more;
  const call = { runId, toolCallId: 'call_1', declaredId: 'bank__pay' };
  const id = randomUUID();
  const expiresAt = new Date(Date.now() + 60_000).toISOString();
  return {
    id,
    kind: 'approval',
    ...(conversation !== undefined && { conversation }),
    ...(noticeAt !== undefined && { noticeAt }),
    request: {
      ...call,
      approvalId: id,
      step: 1,
      tool: 'bank__pay',
      args: { amount: 5, note: reason },
      reason,
      expiresAt,
      mayEdit: false,
      mayRemember: false,
    },
    binding: {
      ...call,
      tenant,
      requesterId: 'alice',
      instanceId: undefined,
      argsHash: 'ab',
      policyVersion: 'v1',
    },
    admitted: [{ roles: ['manager'] }],
    rule: 'requireApproval[0]',
    createdAt: new Date().toISOString(),
    expiresAt,
  };
}

/** The same for a call that a client is to make. */
function clientCall(tenant: string): PendingOf<'client'> {
  const { request, ...rest } = record(tenant);
  const {
    approvalId: pendingId,
    reason: _reason,
    mayEdit: _edit,
    mayRemember: _remember,
    ...call
  } = request;
  const schema = { type: 'object', properties: { colour: { type: 'string' } } } as const;
  return { ...rest, kind: 'client', request: { ...call, pendingId, effect: 'read_only' }, schema };
}

function reasonIn(found: Pending | undefined): string | undefined {
  return found?.kind === 'approval'
    ? `${found.request.reason}${found.request.args['note'] === found.request.reason ? '' : ' lost'}`
    : undefined;
}

function yes(decidedBy = 'mia'): PendingAnswer {
  return { decision: 'approve', decidedBy, decidedAt: new Date().toISOString() };
}

async function added(
  store: PendingStore,
  tenant: string,
  more?: Parameters<typeof record>[1],
): Promise<Pending> {
  const made = record(tenant, more);
  await store.add(made);
  return made;
}

const idOf = ({ id }: Pending): string => id;

const never = (): AbortSignal => new AbortController().signal;

const CONTRACT: Contract<PendingStore> = {
  port: 'PendingStore',
  cases: [
    { name: 'finds a question as it was added, by each kind of key', check: findsIt },
    { name: 'finds nothing for an unknown id', check: knowsNothing },
    { name: 'keeps awkward texts', check: keepsAwkwardTexts },
    { name: 'accepts one of many concurrent answers', check: answersOnce },
    {
      name: 'lets one of many concurrent owners decide, until its lease expires or is given back',
      check: claimsOnce,
    },
    { name: 'lets one of many concurrent callers use an answer', check: usesOnce },
    {
      name: 'keeps a call of a client with its schema, and its value, which is used once',
      check: keepsValues,
    },
    { name: 'refuses to use a denial, a withdrawal, and what has no answer', check: refusesUse },
    { name: 'resolves a wait, whichever process takes the answer', check: tellsWhoWaits },
    { name: 'resolves a wait that begins after the answer', check: tellsLate },
    { name: 'stops waiting when the signal aborts', check: stopsWaiting },
    { name: 'lists the oldest first, page by page', check: pages },
    { name: 'lists what a run asked, and what is open', check: filters },
    {
      name: 'lists what the runs of a conversation asked, page by page',
      check: filtersConversations,
    },
    { name: 'leases a notice that is due to one of many who ask at once', check: leasesNotices },
    {
      name: 'leases a notice again once its lease has expired, or it is due again',
      check: repeatsNotices,
    },
    {
      name: 'lists nothing of another tenant, and no page after one of its',
      check: separatesTenants,
    },
  ],
  restart: {
    before: async ({ store, tenant }) => {
      await store.answer(idOf(await added(store, tenant, { reason: 'first' })), yes());
      await added(store, tenant, { reason: 'second' });
    },
    after: async (store, { tenant }) => {
      const [first, second] = await store.list({ tenant });
      assert.deepEqual(
        [first?.answer?.decidedBy, second?.answer, reasonIn(second)],
        ['mia', undefined, 'second'],
      );
      assert.equal(await store.use(first?.id ?? ''), true);
    },
  },
};

async function findsIt({ store, other, tenant }: PendingTrial): Promise<void> {
  const made = await added(store, tenant);
  assert.deepEqual(
    JSON.parse(JSON.stringify(await other.find(idOf(made)))),
    JSON.parse(JSON.stringify(made)),
  );
}

async function knowsNothing({ store }: PendingTrial): Promise<void> {
  for (const id of [randomUUID(), ...AWKWARD_TEXTS]) {
    assert.equal(await store.find(id), undefined);
    assert.equal(await store.answer(id, yes()), undefined);
    assert.equal(await store.use(id), false);
    assert.equal(await store.claim(id, { owner: 'one', forMs: 60_000 }), false);
  }
}

async function keepsAwkwardTexts({ store, other, tenant }: PendingTrial): Promise<void> {
  for (const reason of AWKWARD_TEXTS) {
    const made = await added(store, tenant, { reason });
    await store.answer(idOf(made), { ...yes(), reason });
    const found = await other.find(idOf(made));
    assert.deepEqual([reasonIn(found), found?.answer?.reason], [reason, reason]);
    assert.equal(await other.use(idOf(made)), true);
  }
}

async function answersOnce(trial: PendingTrial): Promise<void> {
  const made = await added(trial.store, trial.tenant);
  const answers = await atOnce(trial, 20, (store, index) =>
    store.answer(idOf(made), yes(`person ${index}`)),
  );
  const taken = answers.filter((answer) => answer !== undefined);
  assert.equal(taken.length, 1);
  assert.equal(
    (await trial.other.find(idOf(made)))?.answer?.decidedBy,
    taken[0]?.answer?.decidedBy,
  );
}

async function claimsOnce(trial: PendingTrial): Promise<void> {
  const { store, other, tenant } = trial;
  const id = idOf(await added(store, tenant));
  const claims = await atOnce(trial, 20, (one, index) =>
    one.claim(id, { owner: `owner ${index}`, forMs: 60_000 }),
  );
  assert.equal(claims.filter(Boolean).length, 1);
  const owner = `owner ${claims.indexOf(true)}`;
  assert.equal(await other.claim(id, { owner, forMs: 0 }), true);
  assert.equal(await other.claim(id, { owner: 'another', forMs: 60_000 }), true);
  assert.equal(await store.claim(id, { owner, forMs: 60_000 }), false);
  await store.answer(id, yes());
  assert.equal(await other.claim(id, { owner: 'another', forMs: 60_000 }), false);
}

async function usesOnce(trial: PendingTrial): Promise<void> {
  const made = await added(trial.store, trial.tenant);
  await trial.other.answer(idOf(made), yes());
  const uses = await atOnce(trial, 20, (store) => store.use(idOf(made)));
  assert.equal(uses.filter(Boolean).length, 1);
  const { usedAt = '' } = (await trial.store.find(idOf(made))) ?? {};
  assert.ok(Math.abs(Date.parse(usedAt) - Date.now()) < 60_000, usedAt);
}

async function keepsValues({ store, other, tenant }: PendingTrial): Promise<void> {
  const made = clientCall(tenant);
  await store.add(made);
  const answer = {
    ...yes('alice'),
    decision: 'answer',
    value: { colour: 'red', list: [1, null, ''] },
  } as const;
  await other.answer(made.id, answer);
  const found = await store.find(made.id);
  assert.deepEqual([found?.kind, found?.schema, found?.answer], ['client', made.schema, answer]);
  assert.deepEqual([await other.use(made.id), await store.use(made.id)], [true, false]);
}

async function refusesUse({ store, tenant }: PendingTrial): Promise<void> {
  const [open, denied, withdrawn] = [
    await added(store, tenant),
    await added(store, tenant),
    await added(store, tenant),
  ];
  await store.answer(idOf(denied), { ...yes(), decision: 'deny' });
  await store.answer(idOf(withdrawn), { ...yes(), decision: 'withdraw' });
  assert.deepEqual(
    [await store.use(idOf(open)), await store.use(idOf(denied)), await store.use(idOf(withdrawn))],
    [false, false, false],
  );
  assert.equal((await store.find(idOf(open)))?.usedAt, undefined);
}

async function tellsWhoWaits({ store, other, tenant }: PendingTrial): Promise<void> {
  const [one, two] = [await added(store, tenant), await added(store, tenant)];
  const waits = [
    store.answered(idOf(one), never()),
    other.answered(idOf(one), never()),
    store.answered(idOf(two), never()),
  ];
  await other.answer(idOf(one), yes('mia'));
  await store.answer(idOf(two), yes('max'));
  const told = await Promise.all(waits);
  assert.deepEqual(
    told.map(({ answer }) => answer?.decidedBy),
    ['mia', 'mia', 'max'],
  );
}

async function tellsLate({ store, other, tenant }: PendingTrial): Promise<void> {
  const made = await added(store, tenant);
  await store.answer(idOf(made), yes());
  assert.equal((await other.answered(idOf(made), never())).answer?.decision, 'approve');
}

async function stopsWaiting({ store, tenant }: PendingTrial): Promise<void> {
  const made = await added(store, tenant);
  await assert.rejects(store.answered(idOf(made), AbortSignal.abort(new Error('over'))), /over/);
  const controller = new AbortController();
  const waiting = store.answered(idOf(made), controller.signal);
  controller.abort(new Error('given up'));
  await assert.rejects(waiting, /given up/);
}

async function pages({ store, other, tenant }: PendingTrial): Promise<void> {
  const made: string[] = [];
  for (let index = 0; index < 5; index += 1)
    made.push(idOf(await added(index % 2 === 0 ? store : other, tenant)));
  const first = (await store.list({ tenant, limit: 2 })).map(idOf);
  const second = (await other.list({ tenant, limit: 2, after: first.at(-1) ?? '' })).map(idOf);
  const third = (await store.list({ tenant, limit: 2, after: second.at(-1) ?? '' })).map(idOf);
  assert.deepEqual([...first, ...second, ...third], made);
  assert.deepEqual((await store.list({ tenant, after: randomUUID() })).map(idOf), made);
}

async function filters({ store, tenant }: PendingTrial): Promise<void> {
  const runId = `run_${randomUUID()}`;
  const [open, answered, other] = [
    await added(store, tenant, { runId }),
    await added(store, tenant, { runId }),
    await added(store, tenant),
  ];
  await store.answer(idOf(answered), yes());
  assert.deepEqual((await store.list({ tenant, runId })).map(idOf), [idOf(open), idOf(answered)]);
  assert.deepEqual((await store.list({ tenant, pending: true })).map(idOf), [
    idOf(open),
    idOf(other),
  ]);
  assert.deepEqual((await store.list({ tenant, runId, pending: true })).map(idOf), [idOf(open)]);
}

async function filtersConversations({
  store,
  other,
  tenant,
  otherTenant,
}: PendingTrial): Promise<void> {
  const conversation = randomUUID();
  const made = [
    await added(store, tenant, { conversation }),
    await added(other, tenant, { conversation }),
  ];
  await added(store, tenant, { conversation: randomUUID() });
  await added(store, tenant);
  await added(store, otherTenant, { conversation });
  await store.answer(idOf(made[1]), yes());
  assert.deepEqual((await other.list({ tenant, conversation })).map(idOf), made.map(idOf));
  assert.deepEqual(
    (await store.list({ tenant, conversation, pending: true })).map(idOf),
    made.slice(0, 1).map(idOf),
  );
  assert.deepEqual(
    (await store.list({ tenant, conversation, limit: 1, after: idOf(made[0]) })).map(idOf),
    made.slice(1).map(idOf),
  );
}

async function separatesTenants({ store, tenant, otherTenant }: PendingTrial): Promise<void> {
  const [mine, theirs] = [await added(store, tenant), await added(store, otherTenant)];
  assert.deepEqual((await store.list({ tenant })).map(idOf), [idOf(mine)]);
  assert.deepEqual((await store.list({ tenant, after: idOf(theirs) })).map(idOf), [idOf(mine)]);
  assert.deepEqual(await store.list({ tenant: `${tenant}%` }), []);
}

const ALL = 1_000;
const LONG_MS = 600_000;
const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString();

async function leasesNotices(trial: PendingTrial): Promise<void> {
  const { store, tenant } = trial;
  const noticeAt = inMs(-1_000);
  const due = await added(store, tenant, { noticeAt });
  const answered = await added(store, tenant, { noticeAt });
  const others = new Set(
    [
      answered,
      await added(store, tenant, { noticeAt: inMs(LONG_MS) }),
      await added(store, tenant),
    ].map(idOf),
  );
  await store.answer(idOf(answered), yes());
  const asked = await atOnce(trial, 10, (one) =>
    one.due({ owner: randomUUID(), forMs: LONG_MS }, ALL),
  );
  const leased = asked.flat();
  const mine = leased.filter(({ record: { id } }) => id === idOf(due));
  assert.deepEqual(
    mine.map(({ at, attempts, record: { binding } }) => [at, attempts, binding.tenant]),
    [[noticeAt, 0, tenant]],
  );
  assert.ok(leased.every(({ record: { id } }) => !others.has(id)));
}

async function repeatsNotices({ store, other, tenant }: PendingTrial): Promise<void> {
  const id = idOf(await added(store, tenant, { noticeAt: inMs(-1_000) }));
  const due = async (one: PendingStore, owner: string, forMs = LONG_MS) =>
    (await one.due({ owner, forMs }, ALL))
      .filter(({ record: found }) => found.id === id)
      .map(({ at, attempts }) => ({ at, attempts }));
  assert.equal((await due(store, 'first', 1)).length, 1);
  await wait(20);
  assert.equal((await due(other, 'second')).length, 1, 'the lease has expired');
  await store.reschedule(id, 'first');
  const next = { at: inMs(5_000), attempts: 3 };
  await store.reschedule(id, 'second', { ...next, dueInMs: 1 });
  await wait(20);
  assert.deepEqual(await due(other, 'third'), [next]);
  await other.reschedule(id, 'third', { ...next, dueInMs: LONG_MS });
  assert.deepEqual(await due(store, 'fourth'), []);
  const last = idOf(await added(store, tenant, { noticeAt: inMs(-1_000) }));
  await store.due({ owner: 'last', forMs: LONG_MS }, ALL);
  await store.reschedule(last, 'last');
  assert.ok(
    (await other.due({ owner: 'fifth', forMs: 1 }, ALL)).every(
      ({ record: found }) => found.id !== last,
    ),
  );
}
