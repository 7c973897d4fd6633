import { Injectable } from '@nestjs/common';
import { decide } from '../policy/compiled.policy.js';
import type { Tool } from '../protocol/tool.js';
import { CallFailure } from './call.failure.js';
import { unknownToolMessage } from './call.lookup.js';
import type { CallProgress } from './execution.scope.js';

/** Stage 4: the same decision that listed the tool, asked again before it runs. */
@Injectable()
export class PolicyGate {
  /** Throws `policy_denied`, or `approval_denied` where a person's yes is needed and nobody can give it. */
  authorise(tool: Tool, progress: CallProgress): void {
    const { scope } = progress;
    const decision = decide(scope.policies, { ...tool.spec, origin: tool.origin });
    progress.decision = decision;
    if (decision.kind === 'deny')
      throw CallFailure.of(
        'policy_denied',
        unknownToolMessage(
          tool.spec.id,
          scope.toolset.specs.map(({ id }) => id).filter((id) => id !== tool.spec.id),
        ),
      );
    if (decision.kind === 'require_approval') {
      throw CallFailure.of(
        'approval_denied',
        `${decision.reason} Nobody can give it in this run, so the call was not made. Tell the user.`,
      );
    }
  }
}
