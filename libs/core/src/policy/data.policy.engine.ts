import type { ToolCatalog } from '../catalog/tool.catalog.js';
import { ConfigurationError, type Finding } from '../protocol/errors.js';
import { PolicyEngine, type Decision, type Policy, type PolicySubject, type VouchedTool } from '../protocol/policy.js';
import { canonicalDeclaration } from '../schema/canonical-json.js';
import type { SchemaValidators } from '../schema/schema.validators.js';
import { CompiledPolicy } from './compiled.policy.js';
import { policyFindings } from './policy-findings.js';
import { decide } from './strictest-decision.js';
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
    const next = listOf(replacement);
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
export function listOf(given: Policy | readonly Policy[] | undefined): readonly Policy[] {
  if (given === undefined) return [];
  return isList(given) ? given : [given];
}

function isList(given: Policy | readonly Policy[]): given is readonly Policy[] {
  return Array.isArray(given);
}
