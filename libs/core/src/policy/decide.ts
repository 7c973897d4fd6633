import { type Decision, StorageUnavailableError } from '@toolloop/protocol';
import { type PolicyActor, PolicyEngine, type PolicySubject } from '../contracts/policy.js';
import type { Tool } from '../contracts/tool.js';
import { Logger } from '../findings/logger.js';
import { CompiledPolicy } from './compiled-policy.js';
import { stricter } from './rules.js';

/**
 * Decides for listing and execution alike by the strictest of all policies, so that a run's own
 * policy narrows the application's and never widens it. Where several require an approval, the
 * approver must meet the terms of each. Policies in shadow are recorded in the decision without
 * effect; without any policy the decision is to deny.
 *
 * @throws StorageUnavailableError for a call while the policies in force cannot be read
 */
export function decide(engines: readonly PolicyEngine[], subject: PolicySubject): Decision {
  const { assumed, ...actor } = subject.actor;
  if (!assumed) return decideAs(engines, subject);
  // With all roles as well: a role that the actor suspended may be one that denies.
  const withAll = decideAs(engines, { ...subject, actor });
  const held = decideAs(engines, {
    ...subject,
    actor: { ...actor, roles: actor.roles.filter((role) => assumed.includes(role)) },
  });
  const isSame =
    withAll.kind === held.kind &&
    withAll.rule === held.rule &&
    withAll.policyVersion === held.policyVersion;
  return isSame ? withAll : stricter(withAll, held);
}

const WITHOUT_POLICY: Decision = {
  kind: 'deny',
  rule: 'default',
  reason: 'There is no policy.',
  policyVersion: 'none',
};
const BROKEN: Decision = {
  kind: 'deny',
  rule: 'engine',
  reason: 'The policy engine failed.',
  policyVersion: 'none',
};
const logger = new Logger('ToolPolicy');

function decideAs(engines: readonly PolicyEngine[], subject: PolicySubject): Decision {
  let strictest: Decision | undefined;
  let shadow: Decision[] | undefined;
  for (const policy of engines) {
    const decision = decideSafely(policy, subject);
    if (policy instanceof CompiledPolicy && policy.policy.shadow) (shadow ??= []).push(decision);
    else strictest = strictest ? stricter(strictest, decision) : decision;
  }
  const decided = strictest ?? WITHOUT_POLICY;
  if (!shadow) return decided;
  return {
    ...decided,
    shadow: shadow.map(({ kind, rule, policyVersion }) => ({ kind, rule, policyVersion })),
  };
}

function decideSafely(policy: PolicyEngine, subject: PolicySubject): Decision {
  try {
    return policy.decide(subject);
  } catch (error) {
    // nothing was decided: the call is not made, and may be later
    if (error instanceof StorageUnavailableError) throw error;
    logger.error(`The policy engine failed for ${subject.declaredId}, which is denied.`, error);
    return BROKEN;
  }
}

/**
 * Tells whether policy lets a tool be listed for an actor. A call of it is decided once more, with
 * its arguments.
 */
export function isPermitted(
  tool: Pick<Tool, 'spec' | 'origin'>,
  {
    policies: engines,
    actor,
  }: { readonly policies: readonly PolicyEngine[]; readonly actor: PolicyActor },
): boolean {
  return decide(engines, subjectOf(tool, actor)).kind !== 'deny';
}

/** Makes the subject of a decision about a tool for an actor. */
export function subjectOf(
  { spec, origin }: Pick<Tool, 'spec' | 'origin'>,
  actor: PolicyActor,
): PolicySubject {
  const { declaredId, effect, labels, inputSchema } = spec;
  return { declaredId, effect, labels, inputSchema, origin, actor };
}
