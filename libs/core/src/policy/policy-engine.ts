import { Logger } from '@nestjs/common';
import { type ApprovalTerms, ConfigurationError, type Decision, type Finding } from '@toolloop/protocol';
import type { ToolCatalog } from '../catalog/tool-catalog.js';
import { type Policy, type PolicyActor, type PolicyCall, PolicyEngine, type PolicySubject, type VouchedTool } from '../contracts/policy.js';
import type { Tool } from '../contracts/tool.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import type { SchemaValidators } from '../schema/validators.js';
import { flowRuling } from './flow.js';
import { policyFindings } from './policy-findings.js';
import { approvalRuling, budgetRuling, callBudgetFor, connectionRuling, grantFor, type Ruling, strictestBudget } from './rules.js';
import { vouchedBy } from './vouched-tools.js';

/** The application's policies, decided by the data in them. They can be replaced while the application runs: the next decision is by the new ones. */
export class DataPolicyEngine extends PolicyEngine {
  private current: readonly CompiledPolicy[] | undefined;

  constructor(
    /** Those of the start. They are compiled when first asked: what is wrong with them is found before. */
    private readonly initial: readonly Policy[],
    private readonly catalog: ToolCatalog,
    private readonly validators: SchemaValidators,
  ) {
    super();
  }

  get policies(): readonly Policy[] {
    return this.compiled().map(({ policy }) => policy);
  }

  override decide(subject: PolicySubject): Decision {
    return decide(this.compiled(), subject);
  }

  /** Of several policies that vouch for the tool, the strictest counts. Also asked before it is known what is wrong with them. */
  override vouchedFor(declaredId: string): VouchedTool | undefined {
    return vouchedBy(this.current?.map(({ policy }) => policy) ?? this.initial, declaredId);
  }

  /** Throws `ConfigurationError` with every finding, and keeps what holds, when one of them is wrong. */
  replace(replacement: Policy | readonly Policy[]): void {
    const next = policyList(replacement);
    const known = { tools: this.catalog.subjects(), announced: this.catalog.announced, validators: this.validators, mayVouch: true };
    const findings = [...next.flatMap((policy) => policyFindings(policy, 'policy', known)), ...this.vouchedAnew(next)];
    if (findings.length > 0) throw new ConfigurationError(findings);
    this.current = next.map((policy) => new CompiledPolicy(policy, this.validators));
  }

  /** Tools are taken in when the application starts, as far as it vouches for them then. */
  private vouchedAnew(next: readonly Policy[]): Finding[] {
    const ids = [...this.policies, ...next].flatMap(({ vouched = {} }) => Object.keys(vouched));
    const changed = [...new Set(ids)].filter((id) => !isSameVouched(vouchedBy(this.policies, id), vouchedBy(next, id)));
    return changed.map((id) => ({
      at: 'policy/vouched',
      problem: `What it vouches for of "${id}" is not what it was when the application started.`,
      remedy: 'Start the application with it; to keep the tool out until then, deny it.',
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

/** One policy or several. */
export function policyList(given: Policy | readonly Policy[] | undefined): readonly Policy[] {
  if (given === undefined) return [];
  return isList(given) ? given : [given];
}

function isList(given: Policy | readonly Policy[]): given is readonly Policy[] {
  return Array.isArray(given);
}

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

/** Policies to begin with. Each is plain data: spread one to change it. */
export const policies = {
  /** Every trusted tool that only reads. */
  readOnly: { version: 'preset:read-only', allow: ['*'], effects: ['read_only'] },
  /** Every trusted tool; what changes anything needs a person's approval. */
  approveWrites: {
    version: 'preset:approve-writes',
    allow: ['*'],
    requireApproval: [{ effects: ['state_change', 'external_side_effect'] }],
  },
  /** Every trusted tool, at once, wherever the information comes from. For prototypes. */
  allowAll: { version: 'preset:allow-all', allow: ['*'], flow: 'off' },
} as const satisfies Record<string, Policy>;

const SEVERITY = { deny: 2, require_approval: 1, allow: 0 } as const;
const WITHOUT_POLICY: Decision = { kind: 'deny', rule: 'default', reason: 'There is no policy.', policyVersion: 'none' };
const BROKEN: Decision = { kind: 'deny', rule: 'engine', reason: 'The policy engine failed.', policyVersion: 'none' };
const logger = new Logger('ToolPolicy');

/**
 * The one answer that listing and execution both ask for: the strictest of all policies, so that a run's own narrows the application's and never widens
 * it. Where several want an approval, the approver must meet the terms of each. Policies in shadow are told in the decision and decide nothing; no
 * policy denies.
 */
export function decide(engines: readonly PolicyEngine[], subject: PolicySubject): Decision {
  const { assumed, ...actor } = subject.actor;
  if (!assumed) return decideAs(engines, subject);
  // With all roles as well: one that was laid down may be one that denies.
  const withAll = decideAs(engines, { ...subject, actor });
  const held = decideAs(engines, { ...subject, actor: { ...actor, roles: actor.roles.filter((role) => assumed.includes(role)) } });
  const isSame = withAll.kind === held.kind && withAll.rule === held.rule && withAll.policyVersion === held.policyVersion;
  return isSame ? withAll : stricter(withAll, held);
}

function decideAs(engines: readonly PolicyEngine[], subject: PolicySubject): Decision {
  let strictest: Decision | undefined;
  let shadow: Decision[] | undefined;
  for (const policy of engines) {
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

/** Whether policy lets a tool be listed for an actor. A call of it is decided once more, with its arguments. */
export function isPermitted(
  tool: Pick<Tool, 'spec' | 'origin'>,
  { policies: engines, actor }: { readonly policies: readonly PolicyEngine[]; readonly actor: PolicyActor },
): boolean {
  return decide(engines, subjectOf(tool, actor)).kind !== 'deny';
}

/** What policy is asked about a tool, on behalf of somebody. */
export function subjectOf({ spec, origin }: Pick<Tool, 'spec' | 'origin'>, actor: PolicyActor): PolicySubject {
  const { declaredId, effect, labels, inputSchema } = spec;
  return { declaredId, effect, labels, inputSchema, origin, actor };
}
