import { Logger } from '@nestjs/common';
import type { Decision, PolicyEngine, PolicySubject } from '../protocol/policy.js';
import { CompiledPolicy } from './compiled.policy.js';
import { strictestBudget } from './grants.js';

const SEVERITY = { deny: 2, require_approval: 1, allow: 0 } as const;
const WITHOUT_POLICY: Decision = { kind: 'deny', rule: 'default', reason: 'There is no policy.', policyVersion: 'none' };
const BROKEN: Decision = { kind: 'deny', rule: 'engine', reason: 'The policy engine failed.', policyVersion: 'none' };
const logger = new Logger('ToolPolicy');

/**
 * The one answer that listing and execution both ask for: the strictest of all policies, so that a run's own narrows the application's and never widens
 * it. Where several want an approval, the approver must meet the terms of each. Policies in shadow are told in the decision and decide nothing; no
 * policy denies.
 */
export function decide(policies: readonly PolicyEngine[], subject: PolicySubject): Decision {
  const { assumed, ...actor } = subject.actor;
  if (!assumed) return decideAs(policies, subject);
  // With all roles as well: one that was laid down may be one that denies.
  const withAll = decideAs(policies, { ...subject, actor });
  const held = decideAs(policies, { ...subject, actor: { ...actor, roles: actor.roles.filter((role) => assumed.includes(role)) } });
  const isSame = withAll.kind === held.kind && withAll.rule === held.rule && withAll.policyVersion === held.policyVersion;
  return isSame ? withAll : stricter(withAll, held);
}

function decideAs(policies: readonly PolicyEngine[], subject: PolicySubject): Decision {
  let strictest: Decision | undefined;
  let shadow: Decision[] | undefined;
  for (const policy of policies) {
    const decision = answerOf(policy, subject);
    if (policy instanceof CompiledPolicy && policy.policy.shadow) (shadow ??= []).push(decision);
    else strictest = strictest ? stricter(strictest, decision) : decision;
  }
  const decided = strictest ?? WITHOUT_POLICY;
  if (!shadow) return decided;
  return { ...decided, shadow: shadow.map(({ kind, rule, policyVersion }) => ({ kind, rule, policyVersion })) };
}

/** The stricter of two, under the terms and the budgets of both. */
function stricter(first: Decision, second: Decision): Decision {
  const decision = SEVERITY[second.kind] > SEVERITY[first.kind] ? second : bothAsk(first, second);
  const shadow = [first, second].flatMap((one) => one.shadow ?? []);
  const approval = [first, second].flatMap((one) => one.approval ?? []);
  const budgets = [first, second].flatMap(({ callBudget }) => callBudget ?? []);
  if (approval.length === 0 && budgets.length === 0 && shadow.length === 0) return decision;
  return {
    ...decision,
    ...(shadow.length > 0 && { shadow }),
    callBudget: budgets.reduce(strictestBudget, {}),
    ...(approval.length > 0 && { approval }),
  };
}

/** A yes is to both of them, and holds for as long as both stay what they are. */
function bothAsk(first: Decision, second: Decision): Decision {
  if (first.kind !== 'require_approval' || second.kind !== 'require_approval') return first;
  return { ...first, rule: `${first.rule} + ${second.rule}`, policyVersion: `${first.policyVersion} + ${second.policyVersion}` };
}

function answerOf(policy: PolicyEngine, subject: PolicySubject): Decision {
  try {
    return policy.decide(subject);
  } catch (error) {
    logger.error(`The policy engine failed for ${subject.declaredId}, which is denied.`, error);
    return BROKEN;
  }
}
