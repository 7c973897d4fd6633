import type { ApprovalRule, ApprovalTerms, PolicyCall, PolicySubject } from '../protocol/policy.js';
import type { SchemaValidators } from '../schema/schema.validators.js';
import { covers, type Ruling } from './grants.js';

/** What the rules that want a person's yes for this call ask of whoever gives it. */
export function approvalRuling(
  rules: readonly ApprovalRule[],
  subject: PolicySubject,
  call: PolicyCall,
  validators: SchemaValidators,
): Ruling | undefined {
  const wanted = rules.filter((rule) => wantsApproval(rule, subject, call, validators));
  const [first] = wanted;
  if (!first) return undefined;
  const { reason = `A tool with the effect ${subject.effect} needs a person's approval.` } = first;
  return {
    kind: 'require_approval',
    rule: `requireApproval[${wanted.map((rule) => rules.indexOf(rule)).join(',')}]`,
    reason,
    approval: wanted.map(termsOf),
  };
}

function wantsApproval(rule: ApprovalRule, subject: PolicySubject, { args, flow }: PolicyCall, validators: SchemaValidators): boolean {
  if (!covers(rule.tools, subject)) return false;
  if (rule.effects && !rule.effects.includes(subject.effect)) return false;
  if (rule.tainted && flow.integrity === 'trusted') return false;
  // Of a copy: validation fills in defaults.
  return !rule.arguments || validators.validate(rule.arguments, structuredClone(args)).length === 0;
}

const TERMS = ['roles', 'notRequester', 'mayEdit', 'mayRemember', 'expiresAfterMs'] as const satisfies readonly (keyof ApprovalTerms)[];

function termsOf(rule: ApprovalRule): ApprovalTerms {
  return Object.fromEntries(TERMS.filter((name) => rule[name] !== undefined).map((name) => [name, rule[name]]));
}
