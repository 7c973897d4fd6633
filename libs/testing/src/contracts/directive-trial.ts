import assert from 'node:assert/strict';
import type {
  DirectiveIntent,
  DirectiveRecord,
  DirectiveReference,
  DirectiveState,
  DirectiveStore,
  DirectiveVersion,
} from '@toolloop/core';
import type { Trial } from './contract.js';
import { intentOf } from './directive-intent.js';

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
