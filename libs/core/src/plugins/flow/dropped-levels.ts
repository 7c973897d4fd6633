import { type Finding, isRecord } from '@toolloop/protocol';
import type { PolicyVersion } from '../../contracts/policy-store.js';
import type { ApprovalRule, Policy } from '../../contracts/policy.js';

/** Finds a level of flow that is gone; undefined where a policy names another one, or none. */
export function droppedLevelFinding(policy: unknown, at: string): Finding | undefined {
  const level = isRecord(policy) ? policy['flow'] : undefined;
  const remedy = REMEDIES.get(level);
  return remedy === undefined
    ? undefined
    : { at: `${at}/flow`, problem: `The level "${String(level)}" is gone.`, remedy };
}

/** The levels of flow that earlier releases had, with the remedy for a policy that names one. */
const REMEDIES: ReadonlyMap<unknown, string> = new Map([
  ['provenance', "Name 'values' in its place."],
  [
    'effect',
    "Name another level, and add { effects: ['state_change', 'external_side_effect'] } to `requireApproval`.",
  ],
]);

/** The rule that asks about every call about which the level `effect` asked. */
const EACH_CHANGE: ApprovalRule = {
  effects: ['state_change', 'external_side_effect'],
  reason: 'A call that changes things needs an approval.',
};

/**
 * Reads a policy that was stored, perhaps by an earlier release. A level that is gone is `taint`,
 * and asks about no call less than it did: `provenance` knew no budget of bits, and `effect` asked
 * about each change.
 */
export function readStoredPolicy(policy: Policy): Policy {
  const level: unknown = isRecord(policy) ? policy.flow : undefined;
  if (level === 'provenance') return { ...policy, flow: 'taint', outsideBits: 0 };
  if (level !== 'effect') return policy;
  const requireApproval = [policy.requireApproval ?? [], EACH_CHANGE].flat();
  return { ...policy, flow: 'taint', requireApproval };
}

/** Reads a version of the policies that was stored, perhaps by an earlier release. */
export function readStoredVersion(version: PolicyVersion): PolicyVersion {
  const { policies } = version;
  return policies ? { ...version, policies: policies.map(readStoredPolicy) } : version;
}
