import type { Decision } from '@toolloop/protocol';
import { type PolicyActor, PolicyEngine, type PolicySubject } from '../../contracts/policy.js';
import type { DataPolicyEngine } from '../../policy/policy-engine.js';

/**
 * Denies what is stopped, behind an engine of the application's own, which decides everything else.
 */
export class StopEngine extends PolicyEngine {
  constructor(private readonly inForce: DataPolicyEngine) {
    super();
  }

  override revision(): number {
    return this.inForce.revision();
  }

  override listedBy({ tenant }: PolicyActor): string {
    return this.inForce.stopsIn({ tenant }).some((stop) => stop.tenant !== undefined) ? tenant : '';
  }

  override decide(subject: PolicySubject): Decision {
    if (subject.call) this.inForce.assertReliable(subject);
    return this.inForce.stopRuling(subject) ?? NOT_STOPPED;
  }
}

const NOT_STOPPED: Decision = {
  kind: 'allow',
  rule: 'stops',
  reason: 'It is not stopped.',
  policyVersion: 'stops',
};
