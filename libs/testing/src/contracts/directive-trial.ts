import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type {
  DirectiveIntent,
  DirectiveRecord,
  DirectiveReference,
  DirectiveState,
  DirectiveStore,
  DirectiveVersion,
} from '@toolloop/core/stores';
import { atOnce, type ContractCase, type Trial } from './contract.js';

/** A refund that has not been requested, with a key of its own. */
export function intentOf(tenant: string, more: Partial<DirectiveIntent> = {}): DirectiveIntent {
  const directiveId = `dir_${randomUUID()}`;
  return {
    tenant,
    directiveId,
    key: `order.refund:${tenant}:o-1:${directiveId}`,
    type: 'order.refund',
    subject: 'o-1',
    call: { declaredId: 'bank__refund', args: '{"orderId":"o-1"}', runId: 'run_1', toolCallId: 'call_1', step: 1, index: 0 },
    authority: { actorId: 'alice', policies: [], flow: { integrity: 'trusted', confidentiality: 'public', traced: ['o-1', 5] } },
    shownArgs: { orderId: 'o-1' },
    preview: { sentence: 'Refunds it.', changes: [{ field: 'state', before: null, after: 'refunded' }] },
    correlationId: 'req_1',
    createdAt: new Date().toISOString(),
    ...more,
  };
}

export type DirectiveTrial = Trial<DirectiveStore>;

/** Long enough that no check meets its end. */
export const LONG_MS = 600_000;

export async function added(store: DirectiveStore, tenant: string, more?: Partial<DirectiveIntent>): Promise<DirectiveRecord> {
  const { record } = await store.add(intentOf(tenant, more));
  return record;
}

export function versionOf({ intent: { tenant, directiveId }, status, epoch }: DirectiveRecord): DirectiveVersion {
  return { tenant, directiveId, status, epoch };
}

export async function claimed(store: DirectiveStore, reference: DirectiveReference, leaseMs = LONG_MS): Promise<DirectiveRecord> {
  const record = await store.claim(reference, leaseMs);
  assert.ok(record, 'it was there to be claimed');
  return record;
}

export function pick({ task, status, epoch, attempts }: DirectiveRecord): Pick<DirectiveState, 'task' | 'status' | 'epoch' | 'attempts'> {
  return { task, status, epoch, attempts };
}

/** Checks of who holds a directive, and for how long. */
export const CLAIM_CASES: readonly ContractCase<DirectiveStore>[] = [
  { name: 'lets one of many claim what is due', check: claimsOnce },
  { name: 'lets nobody claim what is not due, or over', check: refusesClaims },
  { name: 'gives what was left to somebody else, and takes nothing more from who had it', check: fences },
  { name: 'leaves it to who says in time to be at it still, and to nobody who has lost it', check: extendsLease },
];

async function claimsOnce(trial: DirectiveTrial): Promise<void> {
  const { intent } = await added(trial.store, trial.tenant);
  const claims = (await atOnce(trial, 20, (store) => store.claim(intent, LONG_MS))).filter((one) => one !== undefined);
  assert.equal(claims.length, 1);
  assert.deepEqual(claims.map(pick), [{ task: 'perform', status: 'performing', epoch: 1, attempts: 1 }]);
}

async function refusesClaims({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const { intent } = await added(store, tenant);
  const held = await claimed(store, intent);
  assert.equal(await other.claim(intent, LONG_MS), undefined);
  const put = await store.change(versionOf(held), { event: 'retried', status: 'pending', dueInMs: LONG_MS });
  assert.ok(put);
  assert.equal(await other.claim(intent, LONG_MS), undefined);
  await store.change(versionOf(put), { event: 'cancelled', status: 'cancelled' });
  assert.equal(await other.claim(intent, LONG_MS), undefined);
}

async function fences({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const { intent } = await added(store, tenant);
  const first = await claimed(store, intent, 1);
  await wait(20);
  const second = await claimed(other, intent);
  assert.deepEqual(pick(second), { task: 'perform', status: 'performing', epoch: 2, attempts: 2 });
  assert.equal(await store.change(versionOf(first), { event: 'succeeded', status: 'succeeded', result: 'stale' }), undefined);
  assert.equal((await other.change(versionOf(second), { event: 'succeeded', status: 'succeeded', result: 'true' }))?.result, 'true');
}

async function extendsLease({ store, other, tenant }: DirectiveTrial): Promise<void> {
  const { intent } = await added(store, tenant);
  assert.equal(await store.extend({ ...intent, status: 'performing', epoch: 0 }, LONG_MS), false);
  const first = await claimed(store, intent, 50);
  assert.equal(await other.extend({ ...versionOf(first), epoch: 2 }, LONG_MS), false);
  assert.equal(await other.extend(versionOf(first), LONG_MS), true);
  await wait(80);
  assert.equal(await other.claim(intent, LONG_MS), undefined);
  assert.equal((await other.find(intent))?.updatedAt, first.updatedAt);
  await store.extend(versionOf(first), 1);
  await wait(20);
  const second = await claimed(other, intent);
  assert.equal(second.epoch, 2);
  assert.equal(await store.extend(versionOf(first), LONG_MS), false);
  const over = await other.change(versionOf(second), { event: 'succeeded', status: 'succeeded' });
  assert.equal(await other.extend(versionOf(second), LONG_MS), false);
  assert.equal((await store.find(intent))?.dueAt, over?.dueAt);
}
