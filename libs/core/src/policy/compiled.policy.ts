import { PolicyEngine, type ApprovalTerms, type Decision, type Policy, type PolicyCall, type PolicySubject } from '../protocol/policy.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import type { SchemaValidators } from '../schema/schema.validators.js';
import { approvalRuling } from './approval-rules.js';
import { flowRuling } from './flow-rule.js';
import { callBudgetFor, connectionRuling, grantFor, type Ruling } from './grants.js';
import { budgetRuling } from './run-budgets.js';

/** A policy ready to decide. Compiled once; what no argument changes is looked up. */
export class CompiledPolicy extends PolicyEngine {
  readonly version: string;
  readonly policy: Policy;
  private readonly grants = new Map<string, Decision>();

  constructor(
    policy: Policy,
    private readonly validators: SchemaValidators,
  ) {
    super();
    this.policy = structuredClone(policy); // what is changed afterwards has another version, or none
    this.version = policy.version ?? `sha256:${sha256(canonicalDeclaration(policy)).slice(0, 16)}`;
  }

  override decide(subject: PolicySubject): Decision {
    const grant = this.grantOf(subject);
    const ruling = grant.kind === 'allow' ? this.rulingOn(subject) : undefined;
    return ruling ? { ...grant, ...ruling } : grant;
  }

  private rulingOn(subject: PolicySubject): Ruling | undefined {
    const { call, connection } = subject;
    if (connection !== undefined) return connectionRuling(this.policy.connections, subject, connection);
    return call && this.rulingOnCall(subject, call);
  }

  /** What is used up denies; then whatever wants a person's yes. */
  private rulingOnCall(subject: PolicySubject, call: PolicyCall): Ruling | undefined {
    const { runBudgets = [], requireApproval = [], flow = 'legs' } = this.policy;
    const budget = budgetRuling(runBudgets, subject, call);
    if (budget?.kind === 'deny') return budget;
    return together([approvalRuling(requireApproval, subject, call, this.validators), budget, flowRuling(flow, subject, call)]);
  }

  private grantOf(subject: PolicySubject): Decision {
    const key = this.keyOf(subject);
    const known = this.grants.get(key);
    if (known) return known;
    const callBudget = callBudgetFor(this.policy.callBudgets ?? [], subject);
    const decision = { ...grantFor(this.policy, subject), policyVersion: this.version, ...(callBudget && { callBudget }) };
    this.grants.set(key, decision);
    return decision;
  }

  /** Of a tenant or a role that the policy does not name nothing is kept: there may be any number of them. */
  private keyOf({ origin, effect, declaredId, actor }: PolicySubject): string {
    const { tenants, roles } = this.policy;
    const tenant = tenants && Object.hasOwn(tenants, actor.tenant) ? actor.tenant : null;
    const held = roles ? actor.roles.filter((role) => Object.hasOwn(roles, role)) : [];
    const trust = origin.trusted ? 'trusted' : 'untrusted';
    if (tenant === null && held.length === 0) return `${trust} ${effect} ${declaredId}`;
    return JSON.stringify([trust, effect, declaredId, tenant, held]);
  }
}

/** Whatever asks beside a rule asks about this call only: no yes is remembered for it. */
function together(rulings: readonly (Ruling | undefined)[]): Ruling | undefined {
  const asking = rulings.filter((ruling) => ruling !== undefined);
  const [first, ...others] = asking;
  if (!first || others.length === 0) return first;
  const approval = (first.approval ?? []).map(forThisCallOnly);
  return { ...first, rule: asking.map(({ rule }) => rule).join(' + '), ...(approval.length > 0 && { approval }) };
}

function forThisCallOnly(terms: ApprovalTerms): ApprovalTerms {
  return { ...terms, mayRemember: false };
}
