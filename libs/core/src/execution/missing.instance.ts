import { Injectable } from '@nestjs/common';
import { instanceKey, prefixIn } from '../catalog/entity-keys.js';
import { closestTo } from '../catalog/suggestion.js';
import { ToolCatalog } from '../catalog/tool.catalog.js';
import { subjectOf } from '../policy/policy-subject.js';
import { decide } from '../policy/strictest-decision.js';
import type { JsonObject } from '../protocol/json.js';
import type { Tool } from '../protocol/tool.js';
import { CallFailure } from './call.failure.js';
import { unknownMethodMessage } from './call.lookup.js';
import type { CallProgress } from './execution.scope.js';

/** Ids that a model is told of where none is close to what it said. */
const MOST_IDS = 5;
const MOST_CHARACTERS = 80;

/** The end of a call over a surface whose arguments are well formed, and that means no instance of the run. */
@Injectable()
export class MissingInstance {
  constructor(private readonly catalog: ToolCatalog) {}

  /**
   * `tool_gone` for an instance that made room for others, `invalid_args` with the closest ids for one that was never there; for a method that nobody may
   * call, or that does not exist, what a tool that does not exist would answer.
   */
  failureOf({ surface }: Tool, args: JsonObject, progress: CallProgress): CallFailure {
    const { toolset } = progress.scope;
    const meant = surface?.meant(args);
    if (!surface || !meant) return CallFailure.of('invalid_args', 'The arguments mean no tool.');
    const { declaredId, instanceId } = meant;
    const denied = surface.offers.has(declaredId) ? this.denialOf(declaredId, progress) : unknownMethod(declaredId, progress);
    if (denied) return denied;
    const prefix = prefixIn(declaredId);
    const howToGetBack = toolset.memberRemovalOf(declaredId, instanceId);
    if (howToGetBack !== undefined)
      return CallFailure.of('tool_gone', `The tools of that ${prefix} are no longer available. ${howToGetBack}`);
    // The instance is there, and this method of it is not for whoever calls.
    if (toolset.toolsOfInstance(instanceKey(declaredId, instanceId)).length > 0) return unknownMethod(declaredId, progress);
    const message = `There is no ${prefix} ${JSON.stringify(shortened(instanceId))} in this run. ${hintFor(instanceId, toolset.instanceIds(declaredId))}`;
    return CallFailure.of('invalid_args', message, [{ pointer: '/id', message }]);
  }

  private denialOf(declaredId: string, progress: CallProgress): CallFailure | undefined {
    const { scope } = progress;
    const subject = this.catalog.entityTool(declaredId);
    if (!subject) return unknownMethod(declaredId, progress);
    const decision = decide(scope.policies, subjectOf(subject, scope.actor));
    if (decision.kind !== 'deny') return undefined;
    progress.decision = decision;
    return CallFailure.of('policy_denied', unknownMethodMessage(declaredId, scope));
  }
}

function unknownMethod(declaredId: string, { scope }: CallProgress): CallFailure {
  return CallFailure.of('unknown_tool', unknownMethodMessage(declaredId, scope));
}

function hintFor(instanceId: string, present: readonly string[]): string {
  const closest = closestTo(instanceId, present);
  if (closest.length > 0) return `Did you mean ${closest.map(quoted).join(' or ')}?`;
  if (present.length === 0) return 'Call a tool that returns it first.';
  const others = present.length - MOST_IDS;
  const known = present.slice(-MOST_IDS).map(quoted).join(', ');
  return `There are ${known}${others > 0 ? ` and ${others} more` : ''}. For any other, call a tool that returns it first.`;
}

function quoted(id: string): string {
  return JSON.stringify(shortened(id));
}

function shortened(id: string): string {
  return id.length > MOST_CHARACTERS ? `${id.slice(0, MOST_CHARACTERS)}…` : id;
}
