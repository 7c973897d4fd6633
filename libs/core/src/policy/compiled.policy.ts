import { isGlob, matchesGlob } from '../catalog/glob.js';
import type { Decision, Policy, PolicySubject } from '../protocol/policy.js';
import { canonicalJson, sha256 } from '../schema/canonical-json.js';
import { toJson } from '../schema/from-value.js';

/** A policy ready to decide. Compiled once; a decision costs a look-up. */
export class CompiledPolicy {
  readonly version: string;
  private readonly policy: Policy;
  private readonly decisions = new Map<string, Decision>();

  constructor(policy: Policy) {
    this.policy = structuredClone(policy); // what is changed afterwards has another version, or none
    this.version = policy.version ?? `sha256:${sha256(canonicalJson(toJson(policy))).slice(0, 16)}`;
  }

  /** The one answer that listing and execution both ask for. */
  decide(subject: PolicySubject): Decision {
    const key = `${subject.origin.trusted ? 'trusted' : 'untrusted'} ${subject.effect} ${subject.declaredId}`;
    const known = this.decisions.get(key);
    if (known) return known;
    const decision = { ...this.rule(subject), policyVersion: this.version };
    this.decisions.set(key, decision);
    return decision;
  }

  private rule(subject: PolicySubject): Omit<Decision, 'policyVersion'> {
    const { allow, deny = [], effects, requireApproval } = this.policy;
    const denied = deny.find((pattern) => matches(pattern, subject, 'deny'));
    if (denied !== undefined) return { kind: 'deny', rule: `deny: ${denied}`, reason: 'The policy denies this tool.' };
    const allowed = allow.find((pattern) => matches(pattern, subject, 'allow'));
    if (allowed === undefined) return { kind: 'deny', rule: 'default', reason: 'No rule of the policy allows this tool.' };
    if (effects && !effects.includes(subject.effect))
      return {
        kind: 'deny',
        rule: `effects: ${effects.join(', ')}`,
        reason: `The policy allows no tool with the effect ${subject.effect}.`,
      };
    if (requireApproval?.effects?.includes(subject.effect))
      return {
        kind: 'require_approval',
        rule: `requireApproval: ${subject.effect}`,
        reason: `A tool with the effect ${subject.effect} needs a person's approval.`,
      };
    return { kind: 'allow', rule: `allow: ${allowed}`, reason: 'The policy allows this tool.' };
  }
}

/** A glob never lets an untrusted source's tool in, even one that is called like the glob; to keep one out it works as for any other. */
function matches(pattern: string, { declaredId, origin }: PolicySubject, purpose: 'allow' | 'deny'): boolean {
  if (!isGlob(pattern)) return pattern === declaredId;
  return (origin.trusted || purpose === 'deny') && matchesGlob(pattern, declaredId);
}

const SEVERITY = { deny: 2, require_approval: 1, allow: 0 } as const;

/** The strictest of several policies' decisions: a run's own policy narrows the application's and never widens it. No policy denies. */
export function decide(policies: readonly CompiledPolicy[], subject: PolicySubject): Decision {
  const decisions = policies.map((policy) => policy.decide(subject)).toSorted((a, b) => SEVERITY[b.kind] - SEVERITY[a.kind]);
  return decisions[0] ?? { kind: 'deny', rule: 'default', reason: 'There is no policy.', policyVersion: 'none' };
}
