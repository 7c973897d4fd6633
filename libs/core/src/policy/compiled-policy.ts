import type { ApprovalTerms, Decision } from '@toolloop/protocol';
import {
  type FlowLevel,
  type Policy,
  type PolicyActor,
  type PolicyCall,
  PolicyEngine,
  type PolicySubject,
  type RunBudget,
} from '../contracts/policy.js';
import { DEFAULT_OUTSIDE_BITS, flowRuling } from '../plugins/flow/flow-rulings.js';
import { budgetRuling } from '../plugins/usage/spending.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import type { SchemaValidators } from '../schema/validators.js';
import {
  approvalRuling,
  callBudgetFor,
  connectionRuling,
  grantFor,
  questionTerms,
  type Ruling,
  together,
} from './rules.js';

/**
 * A compiled policy. The grant of a tool and its call budget, which depend on no arguments, are
 * cached.
 */
export class CompiledPolicy extends PolicyEngine {
  readonly version: string;
  readonly policy: Policy;
  private readonly level: FlowLevel;
  private readonly grants = new Map<string, Decision>();

  constructor(
    policy: Policy,
    private readonly validators: SchemaValidators,
    /** The level where the policy names none: one that narrows others imposes none. */
    level: FlowLevel = 'off',
  ) {
    super();
    // what is changed afterwards has another version, or none
    this.policy = structuredClone(policy);
    this.level = policy.flow ?? level;
    this.version = policy.version ?? `sha256:${sha256(canonicalDeclaration(policy)).slice(0, 16)}`;
  }

  override budgets(): readonly RunBudget[] {
    return this.policy.runBudgets ?? [];
  }

  override decide(subject: PolicySubject): Decision {
    const grant = this.grantOf(subject);
    const ruling = grant.kind === 'allow' ? this.rulingOn(subject) : undefined;
    return ruling ? { ...grant, ...ruling } : grant;
  }
  override hidesBeyond = (): number | undefined =>
    this.level === 'values' && !this.policy.shadow
      ? (this.policy.outsideBits ?? DEFAULT_OUTSIDE_BITS)
      : undefined;

  override answeredBy(subject: PolicySubject): readonly ApprovalTerms[] {
    return this.policy.shadow ? [] : questionTerms(this.policy.questions ?? [], subject);
  }

  private rulingOn(subject: PolicySubject): Ruling | undefined {
    const { call, connection } = subject;
    if (connection !== undefined)
      return connectionRuling(this.policy.connections, subject, connection);
    return call && this.rulingOnCall(subject, call);
  }

  /**
   * Decides about a call: an exhausted budget denies it; otherwise any rule may require an
   * approval.
   */
  private rulingOnCall(subject: PolicySubject, call: PolicyCall): Ruling | undefined {
    const { runBudgets = [], requireApproval = [] } = this.policy;
    const closing = flowRuling(this.level, this.policy, subject, call);
    const budget = runBudgets.length > 0 ? budgetRuling(runBudgets, subject, call) : undefined;
    if (budget?.kind === 'deny') return budget;
    if (closing?.kind === 'deny') return closing;
    return together([
      approvalRuling(requireApproval, subject, call, this.validators),
      budget,
      closing,
    ]);
  }

  private grantOf(subject: PolicySubject): Decision {
    const key = this.keyOf(subject);
    const known = this.grants.get(key);
    if (known) return known;
    const callBudget = callBudgetFor(this.policy.callBudgets ?? [], subject);
    const decision = {
      ...grantFor(this.policy, subject),
      policyVersion: this.version,
      ...(callBudget && { callBudget }),
    };
    this.grants.set(key, decision);
    return decision;
  }

  /** Returns the tenant and the roles that the policy names: there may be any number of others. */
  override listedBy({ tenant, roles }: PolicyActor): string {
    const { tenants, roles: named } = this.policy;
    const held = named ? roles.filter((role) => Object.hasOwn(named, role)) : [];
    if (tenants && Object.hasOwn(tenants, tenant)) return JSON.stringify([tenant, ...held]);
    return held.length === 0 ? '' : JSON.stringify([null, ...held]);
  }

  private keyOf({ origin, effect, declaredId, actor }: PolicySubject): string {
    return `${origin.trusted ? 'trusted' : 'untrusted'} ${effect} ${this.listedBy(actor)} ${declaredId}`;
  }
}
