import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { DirectiveEvent } from '@toolloop/core/directives';
import {
  type DirectiveIntent,
  type DirectiveRecord,
  type DirectiveReference,
  type DirectiveState,
  type DirectiveStore,
  type DirectiveVersion,
  type LeasedDirective,
  type LeaseHold,
  versionOf,
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

/** The behaviour that every `DirectiveStore` must show. */
export function directiveStoreContract(
  name: string,
  make: () => Promise<StoreUnderTest<DirectiveStore>>,
  runner: ContractRunner,
): void {
  runContract(CONTRACT, name, make, runner);
}

type DirectiveTrial = Trial<DirectiveStore>;

/** Makes a refund that has not been requested, with a key of its own. */
function intentOf(tenant: string, more: Partial<DirectiveIntent> = {}): DirectiveIntent {
  const directiveId = `dir_${randomUUID()}`;
  return {
    tenant,
    directiveId,
    key: `order.refund:${tenant}:o-1:${directiveId}`,
    type: 'order.refund',
    subject: 'o-1',
    call: {
      declaredId: 'bank__refund',
      args: '{"orderId":"o-1"}',
      runId: 'run_1',
      toolCallId: 'call_1',
      step: 1,
      index: 0,
    },
    authority: {
      actorId: 'alice',
      policies: [],
      flow: {
        integrity: 'untrusted',
        confidentiality: 'public',
        outsideBits: 5,
        outside: [{ name: 'note', from: ['mail__read#/body'] }],
      },
    },
    shownArgs: { orderId: 'o-1' },
    preview: {
      sentence: 'Refunds it.',
      changes: [{ field: 'state', before: null, after: 'refunded' }],
    },
    correlationId: 'req_1',
    createdAt: new Date().toISOString(),
    ...more,
  };
}

/** A lease that is longer than any check. */
const LONG_MS = 600_000;
const ANY = { owner: 'any', forMs: LONG_MS };

async function added(
  store: DirectiveStore,
  tenant: string,
  more?: Partial<DirectiveIntent>,
): Promise<DirectiveRecord> {
  const { record } = await store.add(intentOf(tenant, more));
  return record;
}

function heldBy(
  { tenant, directiveId }: DirectiveReference,
  { owner, epoch }: LeaseHold,
): DirectiveVersion {
  return { tenant, directiveId, status: 'performing', owner, epoch };
}

/** Acquires it as an owner of its own. */
async function acquired(
  store: DirectiveStore,
  reference: DirectiveReference,
  forMs = LONG_MS,
): Promise<LeasedDirective> {
  const record = await store.acquire(reference, { owner: randomUUID(), forMs });
  return record ?? assert.fail('It was there to be acquired.');
}

function pick({
  task,
  status,
  epoch,
  attempts,
}: DirectiveRecord): Pick<DirectiveState, 'task' | 'status' | 'epoch' | 'attempts'> {
  return { task, status, epoch, attempts };
}

/** The milliseconds within which a polling store has polled again. */
const PATIENCE_MS = 15_000;

/** Waits until a condition holds. */
async function eventually(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end;) {
    if (await holds()) return;
    await wait(10);
  }
  assert.fail(`In vain: ${what}.`);
}

const CONTRACT: Contract<DirectiveStore> = {
  port: 'DirectiveStore',
  cases: [
    {
      name: 'keeps one of many directives with the same key, and answers all with it',
      check: addsOnce,
    },
    {
      name: 'keeps nothing when the work before it rejects, and else runs that work once',
      check: addsBehind,
    },
    { name: 'finds a directive as it was added', check: findsIt },
    {
      name: 'keeps tenants apart, though their keys and ids are the same',
      check: separatesTenants,
    },
    { name: 'lists the newest directives first, by filter, page by page', check: lists },
    { name: 'leases a directive that is due, and tells that it is performed', check: leases },
    { name: 'leases no directive that is not due yet, or over', check: refusesLeases },
    { name: 'tells nothing of a lease that is renewed or asked for again', check: renewsQuietly },
    ...leaseCases<DirectiveStore, DirectiveIntent>({
      make: async (store, tenant) => (await added(store, tenant)).intent,
      acquire: async (store, intent, request) => (await store.acquire(intent, request))?.lease,
      renew: (store, intent, hold, forMs) => store.renew({ ...intent, ...hold }, forMs),
      release: (store, intent, hold) =>
        store.change(heldBy(intent, hold), { event: 'retried', status: 'pending', dueInMs: 0 }),
      write: async (store, intent, hold) =>
        (await store.change(heldBy(intent, hold), { event: 'succeeded', status: 'succeeded' })) !==
        undefined,
    }),
    { name: 'changes a directive from the named state, and from no other', check: comparesAndSets },
    { name: 'lets one of many concurrent callers change a directive', check: changesOnce },
    {
      name: 'keeps result and task, and a failure only until the next attempt succeeds',
      check: keepsWhatIsSaid,
    },
    {
      name: 'counts how often a directive was put off, until it changes for another reason',
      check: countsPutOffs,
    },
    {
      name: 'calls the worker with directives that are due, now and later, and again when it rejects',
      check: works,
    },
    { name: 'emits every change, in order', check: tells },
    { name: 'keeps awkward texts', check: keepsAwkwardTexts },
  ],
  restart: {
    before: async ({ store, tenant }) =>
      void (await added(store, tenant, { directiveId: tenant, key: tenant })),
    after: async (store, { tenant }) => {
      const worked: string[] = [];
      const stop = await store.work(noting(tenant, worked), 4);
      await eventually('what was added before is performed', () => worked.includes(tenant));
      await stop();
      assert.equal(
        (await store.add(intentOf(tenant, { directiveId: tenant, key: tenant }))).isNew,
        false,
      );
    },
  },
};

async function addsOnce(trial: DirectiveTrial): Promise<void> {
  const intent = intentOf(trial.tenant);
  const all = await atOnce(trial, 40, (store) =>
    store.add({ ...intent, createdAt: new Date().toISOString() }),
  );
  assert.equal(all.filter(({ isNew }) => isNew).length, 1);
  assert.equal(new Set(all.map(({ record }) => record.intent.createdAt)).size, 1);
  assert.equal((await trial.store.list({ tenant: trial.tenant })).length, 1);
}

async function addsBehind({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const intent = intentOf(tenant);
  const refusal = new Error('The approval was used already.');
  await assert.rejects(
    store.add(intent, () => Promise.reject(refusal)),
    (error) => error === refusal,
  );
  assert.equal(await other.find(intent), undefined);
  const seen: unknown[] = [];
  const first = async (): Promise<void> => void seen.push(await store.find(intent));
  assert.equal((await store.add(intent, first)).isNew, true);
  assert.equal((await other.add(intent, first)).isNew, false);
  assert.deepEqual([seen.length, seen[0]], [2, undefined]);
}

async function findsIt({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const intent = intentOf(tenant);
  const { record } = await store.add(intent);
  assert.deepEqual(record.intent, intent);
  assert.deepEqual(pick(record), { task: 'perform', status: 'pending', epoch: 0, attempts: 0 });
  assert.deepEqual(await other.find(intent), record);
  assert.equal(await other.find({ tenant, directiveId: randomUUID() }), undefined);
}

async function separatesTenants({
  store,
  other,
  tenant,
  otherTenant,
}: DirectiveTrial): Promise<void> {
  const own = intentOf(tenant);
  await store.add(own);
  assert.equal(await other.find({ tenant: otherTenant, directiveId: own.directiveId }), undefined);
  assert.equal(
    await other.acquire({ tenant: otherTenant, directiveId: own.directiveId }, ANY),
    undefined,
  );
  assert.deepEqual(await other.list({ tenant: otherTenant }), []);
  const theirs = await other.add({ ...own, tenant: otherTenant });
  assert.equal(theirs.isNew, true);
  await acquired(store, own);
  assert.equal((await store.find({ ...own, tenant: otherTenant }))?.status, 'pending');
}

async function lists({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const made: string[] = [];
  for (let index = 0; index < 7; index += 1) {
    const actorId = index % 2 === 0 ? 'alice' : 'eve';
    const { authority } = intentOf(tenant);
    const record = await added(store, tenant, {
      subject: `o-${index % 3}`,
      authority: { ...authority, actorId },
    });
    made.unshift(record.intent.directiveId);
  }
  const ids = async (query: object): Promise<readonly string[]> =>
    (await other.list({ tenant, ...query })).map(({ intent }) => intent.directiveId);
  assert.deepEqual(await ids({}), made);
  assert.deepEqual(await ids({ limit: 3 }), made.slice(0, 3));
  assert.deepEqual(await ids({ limit: 3, after: made[2] }), made.slice(3, 6));
  assert.deepEqual(await ids({ after: made[6] }), []);
  assert.deepEqual(await ids({ subject: 'o-0' }), [made[0], made[3], made[6]]);
  assert.deepEqual(await ids({ actorId: 'eve', limit: 2 }), [made[1], made[3]]);
  await acquired(store, { tenant, directiveId: made[4] ?? '' });
  assert.deepEqual(await ids({ status: 'performing' }), [made[4]]);
}

async function leases({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const { intent } = await added(store, tenant);
  const first = await acquired(store, intent, 1);
  assert.deepEqual(pick(first), { task: 'perform', status: 'performing', epoch: 1, attempts: 1 });
  assert.deepEqual([first.lease.epoch, first.dueAt], [1, undefined]);
  assert.deepEqual(await other.find(intent), first);
  await wait(20);
  const second = await acquired(other, intent);
  assert.deepEqual(pick(second), { task: 'perform', status: 'performing', epoch: 2, attempts: 2 });
  assert.equal(
    await store.change(versionOf(first), {
      event: 'succeeded',
      status: 'succeeded',
      result: 'stale',
    }),
    undefined,
  );
  const over = await other.change(versionOf(second), {
    event: 'succeeded',
    status: 'succeeded',
    result: 'true',
  });
  assert.deepEqual([over?.result, over?.lease, over?.epoch], ['true', undefined, 2]);
}

async function refusesLeases({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const { intent } = await added(store, tenant);
  const held = await acquired(store, intent);
  assert.equal(await other.acquire(intent, ANY), undefined);
  const put = await store.change(versionOf(held), {
    event: 'retried',
    status: 'pending',
    dueInMs: LONG_MS,
  });
  assert.ok(put);
  assert.equal(await other.acquire(intent, ANY), undefined);
  await store.change(versionOf(put), { event: 'cancelled', status: 'cancelled' });
  assert.equal(await other.acquire(intent, ANY), undefined);
}

async function renewsQuietly({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const told: string[] = [];
  const subscription = store.changes$.subscribe(
    (event) => event.tenant === tenant && told.push(event.event),
  );
  const { intent } = await added(store, tenant);
  const { lease, updatedAt } = await acquired(store, intent, 1);
  assert.equal(await store.renew({ ...intent, ...lease }, LONG_MS), true);
  const again = await store.acquire(intent, { owner: lease.owner, forMs: LONG_MS });
  assert.deepEqual([again?.updatedAt, again?.attempts, again?.epoch], [updatedAt, 1, 1]);
  assert.ok(again && Date.parse(again.lease.expiresAt) > Date.parse(lease.expiresAt));
  assert.deepEqual(await other.find(intent), again);
  await eventually('both changes are told', () => told.length >= 2);
  subscription.unsubscribe();
  assert.deepEqual(told, ['requested', 'started']);
}

async function comparesAndSets({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const record = await added(store, tenant);
  const from = versionOf(record);
  const cancelled = { event: 'cancelled', status: 'cancelled' } as const;
  assert.equal(await other.change({ ...from, status: 'dead' }, cancelled), undefined);
  assert.equal(await other.change({ ...from, epoch: 1 }, cancelled), undefined);
  assert.equal(await other.change({ ...from, directiveId: randomUUID() }, cancelled), undefined);
  assert.deepEqual(await store.find(record.intent), record);
  const changed = await other.change(from, cancelled);
  assert.equal(changed?.status, 'cancelled');
  assert.equal(changed.dueAt, undefined);
  assert.deepEqual(await store.find(record.intent), changed);
}

async function changesOnce(trial: DirectiveTrial): Promise<void> {
  const record = await added(trial.store, trial.tenant);
  const changes = await atOnce(trial, 20, (store) =>
    store.change(versionOf(record), { event: 'cancelled', status: 'cancelled' }),
  );
  assert.equal(changes.filter((one) => one !== undefined).length, 1);
}

async function keepsWhatIsSaid({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const { intent } = await added(store, tenant);
  const failure = { code: 'execution_failed', safeMessage: 'Busy.', correlationId: 'x' } as const;
  const retried = await store.change(versionOf(await acquired(store, intent)), {
    event: 'retried',
    status: 'pending',
    dueInMs: 0,
    failure,
  });
  assert.deepEqual([retried?.failure, retried?.attempts], [failure, 1]);
  const succeeded = await store.change(versionOf(await acquired(other, intent)), {
    event: 'succeeded',
    status: 'succeeded',
    result: { a: [null, 1] },
  });
  assert.ok(succeeded);
  assert.deepEqual(
    [succeeded.failure, succeeded.attempts, succeeded.result],
    [undefined, 2, { a: [null, 1] }],
  );
  const undoing = await store.change(versionOf(succeeded), {
    event: 'cancelled',
    status: 'pending',
    task: 'compensate',
    attempts: 0,
    dueInMs: 0,
  });
  assert.ok(undoing);
  assert.deepEqual(
    [undoing.task, undoing.attempts, undoing.result],
    ['compensate', 0, { a: [null, 1] }],
  );
  assert.deepEqual(await other.find(intent), undoing);
}

async function countsPutOffs({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const { intent } = await added(store, tenant);
  const again = { event: 'retried', status: 'pending', dueInMs: 0 } as const;
  const putOff = await store.change(versionOf(await acquired(store, intent)), {
    ...again,
    attempts: 0,
    putOffs: 3,
  });
  assert.deepEqual([putOff?.putOffs, (await other.find(intent))?.putOffs], [3, 3]);
  const leased = await acquired(other, intent);
  assert.equal(leased.putOffs, 3);
  await store.change(versionOf(leased), again);
  assert.equal((await other.find(intent))?.putOffs, undefined);
}

/** Performs the directives of this tenant alone: other checks have left theirs. */
function noting(
  tenant: string,
  worked: string[],
  perform?: (reference: DirectiveReference) => Promise<unknown>,
) {
  return async (reference: DirectiveReference): Promise<void> => {
    if (reference.tenant !== tenant) return;
    worked.push(reference.directiveId);
    await perform?.(reference);
  };
}

async function works({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const before = await added(store, tenant);
  const worked: string[] = [];
  const refusals = [new Error('for a reason that passes')];
  const perform = async (reference: DirectiveReference): Promise<void> => {
    const refusal = refusals.pop();
    if (refusal) throw refusal;
    const record = await store.acquire(reference, { owner: randomUUID(), forMs: LONG_MS });
    if (!record) return;
    const again = { event: 'retried', status: 'pending', dueInMs: 50 } as const;
    await store.change(
      versionOf(record),
      record.attempts === 1 ? again : { event: 'succeeded', status: 'succeeded' },
    );
  };
  const stop = await store.work(noting(tenant, worked, perform), 4);
  const after = await added(other, tenant);
  const isDone = async ({ intent }: DirectiveRecord): Promise<boolean> =>
    (await other.find(intent))?.status === 'succeeded';
  await eventually(
    'both are performed twice',
    async () => (await isDone(before)) && (await isDone(after)),
  );
  await stop();
  const { length } = worked;
  const late = await added(store, tenant);
  await wait(50);
  assert.equal(worked.length, length);
  assert.equal((await other.find(late.intent))?.status, 'pending');
}

async function tells({ store, tenant }: DirectiveTrial): Promise<void> {
  const told: DirectiveEvent[] = [];
  const subscription = store.changes$.subscribe(
    (event) => event.tenant === tenant && told.push(event),
  );
  const { intent } = await added(store, tenant);
  const held = await acquired(store, intent);
  await store.change(versionOf(held), { event: 'succeeded', status: 'succeeded' });
  await eventually('three changes are told', () => told.length >= 3);
  subscription.unsubscribe();
  const said = told.map(({ event, status, epoch }) => [event, status, epoch]);
  assert.deepEqual(said, [
    ['requested', 'pending', 0],
    ['started', 'performing', 1],
    ['succeeded', 'succeeded', 1],
  ]);
  const { directiveId, correlationId, subject, call } = intent;
  assert.deepEqual(
    told.map((event) => [
      event.directiveId,
      event.correlationId,
      event.subject,
      event.runId,
      event.step,
    ]),
    told.map(() => [directiveId, correlationId, subject, call.runId, call.step]),
  );
}

async function keepsAwkwardTexts({ store, other, tenant }: DirectiveTrial): Promise<void> {
  for (const [index, text] of AWKWARD_TEXTS.entries()) {
    const intent = intentOf(tenant, {
      key: `${text}${index}`,
      subject: text,
      correlationId: text,
      shownArgs: { [text]: text },
    });
    await store.add(intent);
    assert.deepEqual((await other.find(intent))?.intent, intent);
    assert.equal(
      (await other.list({ tenant, subject: text })).at(-1)?.intent.directiveId,
      intent.directiveId,
    );
  }
}
