import { Logger } from '@nestjs/common';
import { ConfigurationError, type Decision, type Finding } from '@toolloop/protocol';
import type { ToolCatalog } from '../catalog/tool-catalog.js';
import {
  type Policy,
  type PolicyActor,
  type PolicyCall,
  PolicyEngine,
  type PolicySubject,
  type RunBudget,
  type VouchedTool,
} from '../contracts/policy.js';
import type { Tool } from '../contracts/tool.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import type { SchemaValidators } from '../schema/validators.js';
import { flowRuling } from './flow.js';
import { policyFindings } from './policy-findings.js';
import { approvalRuling, callBudgetFor, connectionRuling, grantFor, type Ruling, strictestBudget, together } from './rules.js';
import { budgetRuling } from './spending.js';
import { vouchedBy } from './vouched-tools.js';

/**
 * Decides by the application's policies, which are data. They can be replaced while the application runs, from the next decision on.
 *
 * @example
 * engine.replace({ version: '2', allow: ['crm__*'], deny: ['crm__deleteCustomer'] });
 */
export class DataPolicyEngine extends PolicyEngine {
  private current: readonly CompiledPolicy[] | undefined;

  constructor(
    /** The policies at the start. They are compiled with the first decision, after bootstrap has checked them. */
    private readonly initial: readonly Policy[],
    private readonly catalog: ToolCatalog,
    private readonly validators: SchemaValidators,
  ) {
    super();
  }

  get policies(): readonly Policy[] {
    return this.compiled().map(({ policy }) => policy);
  }

  override budgets(): readonly RunBudget[] {
    return this.compiled().flatMap((policy) => policy.budgets());
  }

  override decide(subject: PolicySubject): Decision {
    return decide(this.compiled(), subject);
  }

  /** Returns what the strictest of the policies vouches for. Called before the policies are checked, too. */
  override vouchedFor(declaredId: string): VouchedTool | undefined {
    return vouchedBy(this.current?.map(({ policy }) => policy) ?? this.initial, declaredId);
  }

  /**
   * Replaces the policies.
   *
   * @throws ConfigurationError with every finding if one of them is wrong; the current ones stay
   */
  replace(replacement: Policy | readonly Policy[]): void {
    const next = policyList(replacement);
    const known = { tools: this.catalog.subjects(), announced: this.catalog.announced, validators: this.validators, mayVouch: true };
    const findings = [...next.flatMap((policy) => policyFindings(policy, 'policy', known)), ...this.vouchedAnew(next)];
    if (findings.length > 0) throw new ConfigurationError(findings);
    this.current = next.map((policy) => new CompiledPolicy(policy, this.validators));
  }

  /** Finds tools for which the new policies vouch differently: tools from outside are admitted when the application starts, by the policies of then. */
  private vouchedAnew(next: readonly Policy[]): Finding[] {
    const ids = [...this.policies, ...next].flatMap(({ vouched = {} }) => Object.keys(vouched));
    const changed = [...new Set(ids)].filter((id) => !isSameVouched(vouchedBy(this.policies, id), vouchedBy(next, id)));
    return changed.map((id) => ({
      at: 'policy/vouched',
      problem: `The policy vouches for "${id}" differently than at the start of the application.`,
      remedy: 'Restart the application with the new policy. To keep the tool out until then, deny it.',
    }));
  }

  private compiled(): readonly CompiledPolicy[] {
    this.current ??= this.initial.map((policy) => new CompiledPolicy(policy, this.validators));
    return this.current;
  }
}

function isSameVouched(one: VouchedTool | undefined, other: VouchedTool | undefined): boolean {
  return canonicalDeclaration(one ?? {}) === canonicalDeclaration(other ?? {});
}

/** Returns one policy or several as a list. */
export function policyList(given: Policy | readonly Policy[] | undefined): readonly Policy[] {
  if (given === undefined) return [];
  return isList(given) ? given : [given];
}

function isList(given: Policy | readonly Policy[]): given is readonly Policy[] {
  return Array.isArray(given);
}

/** A compiled policy. The grant of a tool and its call budget, which depend on no arguments, are cached. */
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

  override budgets(): readonly RunBudget[] {
    return this.policy.runBudgets ?? [];
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

  /** Decides about a call: an exhausted budget denies it; otherwise any rule may require an approval. */
  private rulingOnCall(subject: PolicySubject, call: PolicyCall): Ruling | undefined {
    const { runBudgets = [], requireApproval = [], flow = 'trifecta' } = this.policy;
    const closing = flowRuling(flow, subject, call);
    const budget = runBudgets.length > 0 ? budgetRuling(runBudgets, subject, call) : undefined;
    if (budget?.kind === 'deny') return budget;
    return together([approvalRuling(requireApproval, subject, call, this.validators), budget, closing]);
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

  /** Makes the cache key of a decision, without tenants and roles that the policy does not name, of which there may be any number. */
  private keyOf({ origin, effect, declaredId, actor }: PolicySubject): string {
    const { tenants, roles } = this.policy;
    const tenant = tenants && Object.hasOwn(tenants, actor.tenant) ? actor.tenant : null;
    const held = roles ? actor.roles.filter((role) => Object.hasOwn(roles, role)) : [];
    const trust = origin.trusted ? 'trusted' : 'untrusted';
    if (tenant === null && held.length === 0) return `${trust} ${effect} ${declaredId}`;
    return JSON.stringify([trust, effect, declaredId, tenant, held]);
  }
}

/**
 * Ready-made policies. Each is plain data: spread one to change it.
 *
 * @example
 * ToolLoopModule.forRoot({ model, policy: { ...policies.approveWrites, version: '1', deny: ['crm__deleteCustomer'] } });
 */
export const policies = {
  /** Allows every trusted tool that only reads. */
  readOnly: { version: 'preset:read-only', allow: ['*'], effects: ['read_only'] },
  /** Allows every trusted tool; those that change anything require an approval. */
  approveWrites: {
    version: 'preset:approve-writes',
    allow: ['*'],
    requireApproval: [{ effects: ['state_change', 'external_side_effect'] }],
  },
  /** Allows every trusted tool without approvals, wherever the information comes from. For prototypes. */
  allowAll: { version: 'preset:allow-all', allow: ['*'], flow: 'off' },
} as const satisfies Record<string, Policy>;

const SEVERITY = { deny: 2, require_approval: 1, allow: 0 } as const;
const WITHOUT_POLICY: Decision = { kind: 'deny', rule: 'default', reason: 'There is no policy.', policyVersion: 'none' };
const BROKEN: Decision = { kind: 'deny', rule: 'engine', reason: 'The policy engine failed.', policyVersion: 'none' };
const logger = new Logger('ToolPolicy');

/**
 * Decides for listing and execution alike by the strictest of all policies, so that a run's own policy narrows the application's and never widens it. Where
 * several require an approval, the approver must meet the terms of each. Policies in shadow are recorded in the decision without effect; without any policy the
 * decision is to deny.
 */
export function decide(engines: readonly PolicyEngine[], subject: PolicySubject): Decision {
  const { assumed, ...actor } = subject.actor;
  if (!assumed) return decideAs(engines, subject);
  // With all roles as well: a role that the actor suspended may be one that denies.
  const withAll = decideAs(engines, { ...subject, actor });
  const held = decideAs(engines, { ...subject, actor: { ...actor, roles: actor.roles.filter((role) => assumed.includes(role)) } });
  const isSame = withAll.kind === held.kind && withAll.rule === held.rule && withAll.policyVersion === held.policyVersion;
  return isSame ? withAll : stricter(withAll, held);
}

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
  return { ...decided, shadow: shadow.map(({ kind, rule, policyVersion }) => ({ kind, rule, policyVersion })) };
}

/** Returns the stricter of two decisions, with the terms and the budgets of both. */
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

/** Joins two decisions that require an approval, which then covers both for as long as both stay the same. */
function bothAsk(first: Decision, second: Decision): Decision {
  if (first.kind !== 'require_approval' || second.kind !== 'require_approval') return first;
  return { ...first, rule: `${first.rule} + ${second.rule}`, policyVersion: `${first.policyVersion} + ${second.policyVersion}` };
}

function decideSafely(policy: PolicyEngine, subject: PolicySubject): Decision {
  try {
    return policy.decide(subject);
  } catch (error) {
    logger.error(`The policy engine failed for ${subject.declaredId}, which is denied.`, error);
    return BROKEN;
  }
}

/** Tells whether policy lets a tool be listed for an actor. A call of it is decided once more, with its arguments. */
export function isPermitted(
  tool: Pick<Tool, 'spec' | 'origin'>,
  { policies: engines, actor }: { readonly policies: readonly PolicyEngine[]; readonly actor: PolicyActor },
): boolean {
  return decide(engines, subjectOf(tool, actor)).kind !== 'deny';
}

/** Makes the subject of a decision about a tool for an actor. */
export function subjectOf({ spec, origin }: Pick<Tool, 'spec' | 'origin'>, actor: PolicyActor): PolicySubject {
  const { declaredId, effect, labels, inputSchema } = spec;
  return { declaredId, effect, labels, inputSchema, origin, actor };
}
