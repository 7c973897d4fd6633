import { Injectable } from '@nestjs/common';
import { subjectOf } from '../policy/policy-subject.js';
import { decide } from '../policy/strictest-decision.js';
import type { JsonObject } from '../protocol/json.js';
import type { Decision } from '../protocol/policy.js';
import type { Tool } from '../protocol/tool.js';
import { CallFailure } from './call.failure.js';
import { deniedToolMessage } from './call.lookup.js';
import { EntityRehydration } from './entity.rehydration.js';
import type { CallProgress, ExecutionScope } from './execution.scope.js';
import { permissionFor } from './tool-permission.js';

/** The same decision that listed the tool, asked again before it runs: without the arguments at stage 1, with them at stage 4. */
@Injectable()
export class PolicyGate {
  constructor(private readonly entities: EntityRehydration) {}

  /**
   * The tool to go on with: that of an entity is on the instance as it is now. Throws `policy_denied`, before the arguments are looked at: what is wrong with
   * them would tell that the tool exists. Throws as {@link EntityRehydration} does. Of a dispatcher there is nothing to decide, only of what is called over it.
   */
  admit(tool: Tool, progress: CallProgress): Tool | Promise<Tool> {
    if (tool.surface?.kind === 'dispatcher') return tool;
    return tool.rehydration ? this.admitFresh(tool, progress) : this.admitted(tool, progress);
  }

  /** For a call that policy denies nothing is looked up, and the tool's own word is that of the instance as it is now. */
  private async admitFresh(tool: Tool, progress: CallProgress): Promise<Tool> {
    const { policies, actor } = progress.scope;
    this.assertAdmitted(tool, decide(policies, subjectOf(tool, actor)), progress);
    const fresh = await this.entities.fresh(tool, progress);
    progress.tool = fresh;
    return this.admitted(fresh, progress);
  }

  private admitted(tool: Tool, progress: CallProgress): Tool | Promise<Tool> {
    const permission = permissionFor(tool, progress.scope);
    if (permission instanceof Promise) return permission.then((decision) => this.assertAdmitted(tool, decision, progress));
    return this.assertAdmitted(tool, permission, progress);
  }

  private assertAdmitted(tool: Tool, decision: Decision, progress: CallProgress): Tool {
    progress.decision = decision;
    if (progress.decision.kind === 'deny') throw CallFailure.of('policy_denied', deniedToolMessage(tool, progress));
    return tool;
  }

  /** Whether this very call may happen, or needs a person's yes. Throws `policy_denied` or `budget_exceeded`. */
  judge(tool: Tool, args: JsonObject, progress: CallProgress): Decision {
    const { scope } = progress;
    const { flow, spending: spent } = scope;
    const instance = tool.entity && { instanceId: tool.entity.instanceId };
    const decision = decide(scope.policies, { ...subjectOf(tool, scope.actor), call: { args, flow, spent, ...instance } });
    progress.decision = decision;
    if (decision.kind !== 'deny') return decision;
    if (decision.isOverBudget) throw CallFailure.of('budget_exceeded', decision.reason);
    throw CallFailure.of('policy_denied', deniedToolMessage(tool, progress));
  }

  /** Counts a call that is let in. */
  charge({ spec, origin }: Tool, args: JsonObject, progress: CallProgress): void {
    const charge = { declaredId: spec.declaredId, trusted: origin.trusted, args };
    progress.charge = charge;
    progress.scope.spending.calls.push(charge);
  }

  /** Takes back what a call that was let in, and is not made yet, counts for. */
  refund({ charge, scope }: CallProgress): void {
    if (charge) scope.spending.takeBack(charge);
  }

  /** Throws where no rule lets the tool use the connection. */
  assertConnection(tool: Tool, connection: string, scope: ExecutionScope): void {
    const { kind, reason } = decide(scope.policies, { ...subjectOf(tool, scope.actor), connection });
    if (kind === 'deny') throw CallFailure.of('forbidden', reason);
  }
}
