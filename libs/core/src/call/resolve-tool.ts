import type { Decision, JsonObject } from '@toolloop/protocol';
import { closestTo } from '../catalog/closest-tools.js';
import type { ToolCatalog } from '../catalog/tool-catalog.js';
import type { Toolset } from '../catalog/toolset.js';
import { wayBack } from '../catalog/way-back.js';
import type { TenantDirectory } from '../contracts/tenant-directory.js';
import type { RemovalCause } from '../contracts/injection.js';
import type { Tool, ToolRehydration, ToolSurface } from '../contracts/tool.js';
import { EntityRehydration } from '../plugins/entities/entity-rehydration.js';
import { instanceKey, memberKey, methodIn, prefixIn } from '../plugins/entities/member-ids.js';
import { resolveSurfaceCall } from '../plugins/entities/surface-call.js';
import { decide, isPermitted, subjectOf } from '../policy/decide.js';
import { CallFailure } from './call-failure.js';
import { limitsOf } from './call-limits.js';
import { advance, type Call, type ExecutionScope, type ResolvedCall } from './call.js';
import { CallPending } from './outcome.js';
import { callable, type HookScope, permissionFor } from './permission.js';

/**
 * Stage 1: the tool behind a name, from this run's toolset only, and the same decision that listed
 * it, made again.
 */
export class ToolResolution {
  private readonly entities = new EntityRehydration();

  constructor(
    private readonly catalog: ToolCatalog,
    private readonly tenants: TenantDirectory | undefined,
  ) {}

  /**
   * Finds the tool of a call and asks policy about it before the arguments are looked at: what is
   * wrong with them would tell that the tool exists.
   *
   * @throws {CallFailure} `forbidden` for a tenant that does not exist; `tool_gone`,
   *   `policy_denied` or `unknown_tool`, of which the last two read alike, so that no caller learns
   *   what exists; and as {@link EntityRehydration} does.
   */
  async resolve(call: Call): Promise<ResolvedCall> {
    const { scope } = call;
    const isKnown = !this.tenants || (await this.tenants.exists(scope.run.tenant));
    if (!isKnown) throw CallFailure.of('forbidden', UNKNOWN_TENANT);
    const meant = this.meantBy(call);
    // The policy may vouch for a stranger's tool otherwise than when it was listed.
    const tool = meant && !meant.origin.trusted ? this.catalog.label(meant) : meant;
    this.catalog.registry.lookups[tool ? 'hits' : 'misses'] += 1;
    if (!tool) throw await this.refusalOf(call);
    // The model was offered what its source has withdrawn since.
    if (this.catalog.retired.has(tool.input)) throw goneTool(tool.spec.id, { kind: 'source' });
    const found = advance(call, { tool, limits: limitsOf(tool, scope, undefined) });
    // About a dispatcher there is nothing to decide, only about the tool that is called over it.
    return tool.surface?.kind === 'dispatcher' ? found : this.permit(found);
  }

  /** Finds the tool of a call in the run's toolset: over a surface, that of an entity. */
  private meantBy(call: Call): Tool | undefined {
    const { scope, request } = call;
    const listed = scope.toolset.find(request.call.name);
    return listed?.surface ? (this.behind(listed.surface, call) ?? listed) : listed;
  }

  /**
   * The tool of an entity on the instance as it is now. Throws as {@link EntityRehydration.fresh}
   * does.
   */
  fresh(call: ResolvedCall, rehydration: ToolRehydration): Promise<Tool> {
    return this.entities.fresh(call, rehydration);
  }

  /**
   * Asks policy, and then the tool itself, whether it may be called. The tool of an entity is put
   * on the instance as it is now; nothing is looked up for a call that policy denies.
   *
   * @throws {CallFailure} `policy_denied`, and as {@link EntityRehydration} does.
   */
  async permit<From extends ResolvedCall>(call: From): Promise<From> {
    const { tool, scope } = call;
    if (!tool.rehydration) return admitted(call, await permissionFor(tool, scope));
    admitted(call, decide(scope.policies, subjectOf(tool, scope.actor)));
    const fresh = await this.fresh(call, tool.rehydration);
    return admitted(advance(call, { tool: fresh }), await permissionFor(fresh, scope));
  }

  /**
   * The failure of a call over a surface whose arguments are well formed and mean no instance of
   * the run: `tool_gone` for an instance that made room for others, `invalid_args` with the closest
   * ids for one that was never there; for a method that may not be called, or that does not exist,
   * the answer of a tool that does not exist.
   */
  missingInstance(call: ResolvedCall, args: JsonObject): CallFailure {
    const { tool, scope } = call;
    const { surface } = tool;
    const { toolset } = scope;
    const meant = surface?.meant(args);
    if (!surface || !meant) return CallFailure.of('invalid_args', 'The arguments mean no tool.');
    const { declaredId, instanceId } = meant;
    const denied = surface.offers.has(declaredId)
      ? this.methodDenial(declaredId, call)
      : unknownMethod(declaredId, call);
    if (denied) return denied;
    const prefix = prefixIn(declaredId);
    const cause = toolset.removalOf(memberKey(declaredId, instanceId));
    if (cause)
      return CallFailure.of(
        'tool_gone',
        `The tools of that ${prefix} are no longer available. ${wayBack(cause)}`,
      );
    // The instance is there, and this method of it may not be called.
    if (toolset.toolsOfInstance(instanceKey(declaredId, instanceId)).length > 0)
      return unknownMethod(declaredId, call);
    const message = `There is no ${prefix} ${quotedId(instanceId)} in this run. ${hintFor(instanceId, toolset.instanceIds(declaredId))}`;
    return CallFailure.of('invalid_args', message, [{ pointer: '/id', message }]);
  }

  /**
   * The entity's tool that a call over a surface means; from here on it is the call of that tool.
   */
  private behind(surface: ToolSurface, call: Call): Tool | undefined {
    const { request, scope } = call;
    const meant = resolveSurfaceCall(request.call, scope.toolset, scope.limits.argumentBytes);
    if (!meant) return undefined;
    advance(call, {
      request: { ...request, call: meant.call },
      routed: { surface, calledAs: request.call.name },
    });
    return meant.tool;
  }

  private async refusalOf(call: Call): Promise<CallFailure | CallPending> {
    const { request, scope } = call;
    const { name } = request.call;
    const cause = scope.toolset.removalOf(name);
    if (cause) return goneTool(name, cause);
    const message = unknownToolMessage(name, scope);
    const listed = this.catalog.find(name);
    const decision = listed && (await permissionFor(listed, scope));
    if (decision?.kind !== 'deny') return CallFailure.of('unknown_tool', message);
    return denialOf(advance(call, { decision }), message);
  }

  private methodDenial(declaredId: string, call: Call): CallFailure | undefined {
    const { scope } = call;
    const subject = this.catalog.entityTool(declaredId);
    if (!subject) return unknownMethod(declaredId, call);
    const decision = decide(scope.policies, subjectOf(subject, scope.actor));
    if (decision.kind !== 'deny') return undefined;
    advance(call, { decision });
    return CallFailure.of('policy_denied', unknownMethodMessage(declaredId, scope));
  }
}

/** The refusal told to whatever acts for a tenant that the `TenantDirectory` does not know. */
export const UNKNOWN_TENANT = 'The application does not know this tenant.';

function goneTool(name: string, cause: RemovalCause): CallFailure {
  return CallFailure.of(
    'tool_gone',
    `The tool "${name}" is no longer available. ${wayBack(cause)}`,
  );
}

function admitted<From extends ResolvedCall>(call: From, decision: Decision): From {
  advance(call, { decision });
  if (decision.kind === 'deny') throw denialOf(call, deniedToolMessage(call));
  return advance(call, { limits: limitsOf(call.tool, call.scope, decision) });
}

/**
 * The failure of a call that policy denies. What waits for a person is not lost while an operator
 * has stopped it: the call stays pending, and an effect that was asked for before is put off.
 */
export function denialOf(
  { request, scope, decision }: Call,
  message: string,
): CallFailure | CallPending {
  const { toolCallId } = request.call;
  const isStopped = decision?.isStopped;
  if (isStopped && scope.performing)
    return CallFailure.of('aborted', 'An operator has stopped it, so it is put off.');
  const { approvals } = scope;
  const asking = approvals.askedBy(toolCallId) ?? approvals.repeatOf(toolCallId);
  const wasAsked = asking !== undefined || approvals.hasLetIn(toolCallId);
  if (isStopped && (wasAsked || request.checkpoint))
    return new CallPending('approval', request.checkpoint);
  return CallFailure.of('policy_denied', message);
}

/** The text a model reads for a tool that it may not call, and for one that does not exist. */
export function deniedToolMessage({ tool: { spec }, routed, scope }: ResolvedCall): string {
  if (!routed) return unknownToolMessage(spec.id, scope);
  return routed.surface.kind === 'dispatcher'
    ? unknownMethodMessage(spec.declaredId, scope)
    : unknownToolMessage(routed.calledAs, scope);
}

/** The text a model reads for a name that is none of its tools: the closest of those it may use. */
function unknownToolMessage(name: string, scope: ExecutionScope): string {
  // The name itself may be one of them: listed, and denied at the call.
  const permitted = new Map(permittedTools(scope).map((tool) => [tool.spec.id, tool]));
  permitted.delete(name);
  const closest = closestTo(name, permitted.keys(), {
    isRead: (id) => permitted.get(id)?.spec.effect === 'read_only',
  });
  const hint =
    closest.length > 0
      ? `Did you mean ${quoted(closest)}?`
      : 'Use one of the tools you were given.';
  return `No tool is named ${JSON.stringify(name.slice(0, 64))}. ${hint}`;
}

/** The same for a method that is said to a dispatcher. */
function unknownMethodMessage(declaredId: string, scope: ExecutionScope): string {
  const [prefix, method] = [prefixIn(declaredId), methodIn(declaredId)];
  const permitted = permittedMembers(scope).filter(
    (id) => id !== declaredId && prefixIn(id) === prefix,
  );
  const reads = new Set(
    scope.toolset.behindSurfaces.flatMap(({ spec }) =>
      spec.effect === 'read_only' ? [spec.declaredId] : [],
    ),
  );
  const closest = closestTo(method, permitted.map(methodIn), {
    isRead: (name) => reads.has(`${prefix}_*_${name}`),
  });
  const hint =
    closest.length > 0 ? `Did you mean ${quoted(closest)}?` : 'Use one of those you were told of.';
  return `No method of "${prefix}" is named ${JSON.stringify(method.slice(0, 64))}. ${hint}`;
}

function quoted(names: readonly string[]): string {
  return names.map((name) => `"${name}"`).join(' or ');
}

function permittedTools(scope: ExecutionScope): Tool[] {
  return scope.toolset.shown.filter((tool) => isPermitted(tool, scope));
}

/** Declared ids of the entities' tools that are there and may be called. */
function permittedMembers(scope: ExecutionScope): string[] {
  const members = new Map(scope.toolset.behindSurfaces.map((tool) => [tool.spec.declaredId, tool]));
  return [...members.values()]
    .filter((tool) => isPermitted(tool, scope))
    .map(({ spec }) => spec.declaredId);
}

/** Ids that a model is told of where none is close to what it said. */
const MOST_IDS = 5;
const MOST_CHARACTERS = 80;

function unknownMethod(declaredId: string, { scope }: Call): CallFailure {
  return CallFailure.of('unknown_tool', unknownMethodMessage(declaredId, scope));
}

function hintFor(instanceId: string, present: readonly string[]): string {
  const closest = closestTo(instanceId, present);
  if (closest.length > 0) return `Did you mean ${closest.map(quotedId).join(' or ')}?`;
  if (present.length === 0) return 'Call a tool that returns it first.';
  const others = present.length - MOST_IDS;
  const known = present.slice(-MOST_IDS).map(quotedId).join(', ');
  return `There are ${known}${others > 0 ? ` and ${others} more` : ''}. For any other, call a tool that returns it first.`;
}

function quotedId(id: string): string {
  return JSON.stringify(id.length > MOST_CHARACTERS ? `${id.slice(0, MOST_CHARACTERS)}…` : id);
}

/**
 * The toolset without the tools whose own `canCall` keeps the run's actor out. Throws as
 * {@link permissionFor} does.
 */
export async function strictlyListed(toolset: Toolset, scope: HookScope): Promise<Toolset> {
  const { tools } = toolset;
  const listed = new Set(await callable(tools, scope));
  return listed.size === tools.length
    ? toolset
    : toolset.filter((tool) => listed.has(tool) && !isOfNone(tool, tools, listed));
}

function isOfNone({ surface }: Tool, tools: readonly Tool[], listed: ReadonlySet<Tool>): boolean {
  if (surface?.kind !== 'grouped') return false;
  const members = tools.filter(({ spec, entity }) => entity && surface.offers.has(spec.declaredId));
  return members.length > 0 && !members.some((tool) => listed.has(tool));
}
