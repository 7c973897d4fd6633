import { Injectable } from '@nestjs/common';
import { decide } from '../policy/compiled.policy.js';
import type { Tool } from '../protocol/tool.js';
import { CallFailure } from './call.failure.js';
import { unknownToolMessage } from './call.lookup.js';
import type { CallProgress } from './execution.scope.js';

/** The same decision that listed the tool, asked again before it runs: admission with stage 1, approval as stage 4. */
@Injectable()
export class PolicyGate {
  /** Throws `policy_denied`, before the arguments are looked at: what is wrong with them would tell that the tool exists. */
  admit(tool: Tool, progress: CallProgress): void {
    const { scope } = progress;
    const decision = decide(scope.policies, { ...tool.spec, origin: tool.origin });
    progress.decision = decision;
    if (decision.kind === 'deny') throw CallFailure.of('policy_denied', unknownToolMessage(tool.spec.id, scope));
  }

  /** Throws `approval_denied` where a person's yes is needed and nobody can give it. */
  authorise({ decision }: CallProgress): void {
    if (decision?.kind === 'require_approval')
      throw CallFailure.of('approval_denied', `${decision.reason} Nobody can give it in this run, so the call was not made.`);
  }
}
