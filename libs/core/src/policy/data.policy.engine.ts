import type { ToolCatalog } from '../catalog/tool.catalog.js';
import { ConfigurationError } from '../protocol/errors.js';
import { PolicyEngine, type Decision, type Policy, type PolicySubject } from '../protocol/policy.js';
import type { SchemaValidators } from '../schema/schema.validators.js';
import { CompiledPolicy } from './compiled.policy.js';
import { policyFindings } from './policy-findings.js';
import { decide } from './strictest-decision.js';

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

  /** Throws `ConfigurationError` with every finding, and keeps what holds, when one of them is wrong. */
  replace(policies: Policy | readonly Policy[]): void {
    const next = listOf(policies);
    const known = { tools: this.catalog.subjects(), announced: this.catalog.announced, validators: this.validators };
    const findings = next.flatMap((policy) => policyFindings(policy, 'policy', known));
    if (findings.length > 0) throw new ConfigurationError(findings);
    this.current = next.map((policy) => new CompiledPolicy(policy, this.validators));
  }

  private compiled(): readonly CompiledPolicy[] {
    this.current ??= this.initial.map((policy) => new CompiledPolicy(policy, this.validators));
    return this.current;
  }
}

/** One policy or several. */
export function listOf(policies: Policy | readonly Policy[] | undefined): readonly Policy[] {
  if (policies === undefined) return [];
  return isList(policies) ? policies : [policies];
}

function isList(policies: Policy | readonly Policy[]): policies is readonly Policy[] {
  return Array.isArray(policies);
}
