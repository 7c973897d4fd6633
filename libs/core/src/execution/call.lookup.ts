import { Injectable } from '@nestjs/common';
import { methodIn, prefixIn } from '../catalog/entity-keys.js';
import { closestTo } from '../catalog/suggestion.js';
import { ToolCatalog } from '../catalog/tool.catalog.js';
import { isPermitted } from '../policy/is-permitted.js';
import type { Tool } from '../protocol/tool.js';
import { CallFailure } from './call.failure.js';
import type { CallProgress, ExecutionScope } from './execution.scope.js';
import { permissionFor } from './tool-permission.js';

/** Stage 1: the tool behind a name, from this run's toolset only. */
@Injectable()
export class CallLookup {
  constructor(private readonly catalog: ToolCatalog) {}

  /** Throws `tool_gone`, `policy_denied` or `unknown_tool`; the last two read alike, so that nobody learns what exists. */
  resolve(progress: CallProgress): Tool | Promise<never> {
    const tool = progress.routed?.tool ?? progress.scope.toolset.find(progress.request.call.name);
    this.catalog.registry.count(tool !== undefined);
    return tool ?? this.refuse(progress);
  }

  private async refuse(progress: CallProgress): Promise<never> {
    const { request, scope } = progress;
    const { name } = request.call;
    const howToGetBack = scope.toolset.removalOf(name);
    if (howToGetBack !== undefined) throw CallFailure.of('tool_gone', `The tool "${name}" is no longer available. ${howToGetBack}`);
    const message = unknownToolMessage(name, scope);
    const listed = this.catalog.find(name);
    const decision = listed && (await permissionFor(listed, scope));
    if (decision?.kind !== 'deny') throw CallFailure.of('unknown_tool', message);
    progress.decision = decision;
    throw CallFailure.of('policy_denied', message);
  }
}

/** The text a model reads for a tool that it may not call, and for one that does not exist. */
export function deniedToolMessage({ spec }: Tool, { routed, scope }: CallProgress): string {
  if (!routed) return unknownToolMessage(spec.id, scope);
  return routed.surface.kind === 'dispatcher' ? unknownMethodMessage(spec.declaredId, scope) : unknownToolMessage(routed.calledAs, scope);
}

/** The text a model reads for a name that is none of its tools: the closest of those it may use. */
function unknownToolMessage(name: string, scope: ExecutionScope): string {
  // The name itself may be one of them: listed, and denied at the call.
  const closest = closestTo(
    name,
    permittedIds(scope).filter((id) => id !== name),
  );
  const hint = closest.length > 0 ? `Did you mean ${quoted(closest)}?` : 'Use one of the tools you were given.';
  return `No tool is named ${JSON.stringify(name.slice(0, 64))}. ${hint}`;
}

/** The same for a method that is said to a dispatcher. */
export function unknownMethodMessage(declaredId: string, scope: ExecutionScope): string {
  const [prefix, method] = [prefixIn(declaredId), methodIn(declaredId)];
  const permitted = permittedMembers(scope).filter((id) => id !== declaredId && prefixIn(id) === prefix);
  const closest = closestTo(method, permitted.map(methodIn));
  const hint = closest.length > 0 ? `Did you mean ${quoted(closest)}?` : 'Use one of those you were told of.';
  return `No method of "${prefix}" is named ${JSON.stringify(method.slice(0, 64))}. ${hint}`;
}

function quoted(names: readonly string[]): string {
  return names.map((name) => `"${name}"`).join(' or ');
}

function permittedIds(scope: ExecutionScope): string[] {
  const permitted = scope.toolset.specs.filter(({ id }) => {
    const tool = scope.toolset.find(id);
    return tool && isPermitted(tool, scope);
  });
  return permitted.map(({ id }) => id);
}

/** Declared ids of the entities' tools that are there and may be called. */
function permittedMembers(scope: ExecutionScope): string[] {
  const members = new Map(scope.toolset.behindSurfaces.map((tool) => [tool.spec.declaredId, tool]));
  return [...members.values()].filter((tool) => isPermitted(tool, scope)).map(({ spec }) => spec.declaredId);
}
