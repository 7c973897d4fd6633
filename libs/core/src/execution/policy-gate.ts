import { randomUUID } from 'node:crypto';
import { HttpException, Injectable } from '@nestjs/common';
import { type Decision, type JsonObject, ToolError, type ToolFailure } from '@toolloop/protocol';
import type { RunContext } from '../contracts/tool-call.js';
import type { Tool, ToolRehydration } from '../contracts/tool.js';
import { ForeignEntityError } from '../discovery/entity-registry.js';
import { decide, subjectOf } from '../policy/policy-engine.js';
import { CallFailure, failureOf, Interruption, interruptionFailure, linkSignal, untilAborted } from './call-failure.js';
import { type CallProgress, type ExecutionScope, limitsOf } from './call.js';
import { deniedToolMessage, permissionFor } from './resolve-tool.js';

/** Finds the instance of an entity tool anew, under the actor the run has now. What is not found, or not clearly the one, is not called. */
@Injectable()
export class EntityRehydration {
  /** Look-ups that are under way, by the run's state map, the one object all calls of a run share. */
  private readonly underWay = new WeakMap<RunContext['state'], Map<string, Promise<object | undefined>>>();

  /** The tool on the instance as it is now. Throws `tool_gone`, `forbidden`, `execution_failed`, `timeout` or `aborted`. */
  async fresh(tool: Tool, progress: CallProgress): Promise<Tool> {
    const { rehydration, spec, entity } = tool;
    if (!rehydration) return tool;
    const { toolCallMs: ms } = limitsOf(progress);
    const looking = this.shared(rehydration, progress.scope);
    const link = linkSignal(progress.scope.signal, { ms, message: outOfTime(ms) });
    try {
      const instance = await untilAborted(looking, link.signal);
      if (!instance) throw gone(tool);
      return { ...rehydration.on(instance), spec, ...(entity && { entity }), rehydration };
    } catch (error) {
      throw error instanceof CallFailure ? error : new CallFailure(refusalOf(error, tool), { cause: error });
    } finally {
      link.release();
    }
  }

  /** One look-up for all calls that wait for it. Once it is answered the next call asks anew: between the two a write may have been made. */
  private shared({ key, lookUp }: ToolRehydration, { run, limits, signal }: ExecutionScope): Promise<object | undefined> {
    const open = this.underWay.get(run.state) ?? new Map<string, Promise<object | undefined>>();
    this.underWay.set(run.state, open);
    const known = open.get(key);
    if (known) return known;
    const ms = limits.toolCallMs;
    const link = linkSignal(signal, { ms, message: outOfTime(ms) });
    const looking = Promise.resolve({ ...run, signal: link.signal }).then(lookUp);
    const answer = untilAborted(looking, link.signal).finally(() => {
      link.release();
      open.delete(key);
    });
    open.set(key, answer);
    return answer;
  }
}

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

function outOfTime(ms: number): string {
  return `What the tool belongs to was not found within ${ms} ms.`;
}

const GONE = new Set([404, 410]);
const FORBIDDEN = new Set([401, 403]);

/** What a resolver throws on purpose is told as such; anything else may pass, and the cause is in the log. */
function refusalOf(error: unknown, tool: Tool): ToolFailure {
  if (error instanceof Interruption) return { ...interruptionFailure(error), retryable: error.kind === 'timeout' };
  if (error instanceof ForeignEntityError || error instanceof ToolError) return failureOf(error);
  const status = error instanceof HttpException ? error.getStatus() : undefined;
  if (status !== undefined && GONE.has(status)) return gone(tool).failure;
  if (status !== undefined && FORBIDDEN.has(status)) return failureOf(error);
  return {
    code: 'execution_failed',
    safeMessage: 'The object of the tool could not be looked up, so the call was not made. The same call may succeed later.',
    retryable: true,
    correlationId: randomUUID(),
  };
}

/** Whether it is gone or kept from this actor is not told. Nor is its id, which may be anybody's words. */
function gone({ spec, givenBy }: Tool): CallFailure {
  const back = givenBy === undefined ? '' : ` Call ${givenBy} to see what there is now.`;
  return CallFailure.of('tool_gone', `The tool "${spec.id}" is no longer available: what it belongs to was not found any more.${back}`);
}
