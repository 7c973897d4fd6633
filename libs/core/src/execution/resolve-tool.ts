import { randomUUID } from 'node:crypto';
import { HttpException } from '@nestjs/common';
import { type Decision, type JsonObject, ToolError, type ToolFailure } from '@toolloop/protocol';
import type { ToolCatalog } from '../catalog/tool-catalog.js';
import { wayBack } from '../catalog/tool-removals.js';
import {
  closestTo,
  instanceKey,
  memberKey,
  methodIn,
  prefixIn,
} from '../catalog/tool-selection.js';
import type { Toolset } from '../catalog/toolset.js';
import type { RemovalCause } from '../contracts/injection.js';
import type { RunContext, TenantDirectory } from '../contracts/tool-call.js';
import {
  isRefusal,
  type Tool,
  type ToolRehydration,
  type ToolSurface,
  type ToolWord,
} from '../contracts/tool.js';
import { ForeignEntityError } from '../discovery/entity-registry.js';
import { Logger } from '../findings/logger.js';
import { decide, isPermitted, subjectOf } from '../policy/policy-engine.js';
import type { Limits } from '../contracts/limits.js';
import {
  CallFailure,
  failureOf,
  Interruption,
  interruptionFailure,
  linkSignal,
  untilAborted,
} from './call-failure.js';
import {
  advance,
  type Call,
  CallPending,
  type ExecutionScope,
  inPlace,
  type ResolvedCall,
  resolveSurfaceCall,
} from './call.js';

/** The refusal told to whatever acts for a tenant that the `TenantDirectory` does not know. */
export const UNKNOWN_TENANT = 'The application does not know this tenant.';

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
  resolve(call: Call): ResolvedCall | Promise<ResolvedCall> {
    const knowing = this.tenants?.exists(call.scope.run.tenant);
    return knowing
      ? knowing.then((isKnown) =>
          isKnown ? this.found(call) : Promise.reject(CallFailure.of('forbidden', UNKNOWN_TENANT)),
        )
      : this.found(call);
  }

  private found(call: Call): ResolvedCall | Promise<ResolvedCall> {
    const { scope } = call;
    const meant = this.meantBy(call);
    // The policy may vouch for a stranger's tool otherwise than when it was listed.
    const tool = meant && !meant.origin.trusted ? this.catalog.label(meant) : meant;
    this.catalog.registry.lookups[tool ? 'hits' : 'misses'] += 1;
    if (!tool) return this.refusalOf(call).then((failure) => Promise.reject(failure));
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
  permit<From extends ResolvedCall>(call: From): From | Promise<From> {
    const { tool, scope } = call;
    if (tool.rehydration) return this.permitFresh(call, tool.rehydration);
    const decision = permissionFor(tool, scope);
    return decision instanceof Promise
      ? decision.then((decided) => admitted(call, decided))
      : admitted(call, decision);
  }

  private async permitFresh<From extends ResolvedCall>(
    call: From,
    rehydration: ToolRehydration,
  ): Promise<From> {
    const { tool, scope } = call;
    admitted(call, decide(scope.policies, subjectOf(tool, scope.actor)));
    const fresh = await this.fresh(call, rehydration);
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

/** The run whose actor a tool's own hook is asked about, and the limits on the answer. */
export type HookScope = Pick<ExecutionScope, 'run' | 'limits'> & {
  readonly signal: AbortSignal | undefined;
};

const logger = new Logger('ToolPolicy');

/**
 * Policy's word on a tool and, where that does not deny it, the word of the tool's own `canCall`.
 * Throws the interruption of a run that ends meanwhile.
 */
export function permissionFor(tool: Tool, scope: ExecutionScope): Decision | Promise<Decision> {
  const decision = decide(scope.policies, subjectOf(tool, scope.actor));
  // Most tools have no word of their own, and wait for nothing.
  return decision.kind === 'deny' || !tool.canCall ? decision : withOwnWord(tool, decision, scope);
}

async function withOwnWord(
  tool: Tool,
  decision: Decision,
  scope: ExecutionScope,
): Promise<Decision> {
  return withWord(await wordOf(tool, scope), decision, 'canCall');
}

/**
 * The decision on a call once its tool was asked, too: a refusal takes the place of policy's yes.
 */
export function withWord(
  word: ToolWord,
  decision: Decision,
  asked: 'canCall' | 'preflight',
): Decision {
  if (word === true) return decision;
  const { policyVersion, shadow } = decision;
  const {
    rule,
    reason,
    version = policyVersion,
  } = word || { rule: asked, reason: 'The tool does not let this actor call it.' };
  return { kind: 'deny', rule, reason, policyVersion: version, ...(shadow && { shadow }) };
}

/**
 * Those of the tools whose own `canCall` lets the run's actor in; all are asked at once. Throws as
 * {@link permissionFor} does.
 */
export async function callable(tools: readonly Tool[], scope: HookScope): Promise<readonly Tool[]> {
  const answers = await canCallOf(tools, scope);
  return tools.filter((_, index) => answers[index]);
}

/** The answers of the tools' own `canCall`, in their order. */
export function canCallOf(
  tools: readonly AskedTool[],
  scope: HookScope,
): Promise<readonly boolean[]> {
  return Promise.all(tools.map(async (tool) => (await wordOf(tool, scope)) === true));
}

type AskedTool = Pick<Tool, 'spec' | 'canCall' | 'timeoutMs'>;

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

/**
 * Asks the tool's own `canCall`. An exception denies, and so does silence until the tool's time is
 * up.
 */
async function wordOf(
  { spec, canCall, timeoutMs }: AskedTool,
  { run, limits, signal }: HookScope,
): Promise<ToolWord> {
  if (!canCall) return true;
  const ms = timeoutMs ?? limits.toolCallMs;
  const link = linkSignal(signal, { ms, message: `It did not answer within ${ms} ms.` });
  try {
    // so that what it throws at once is a rejection like any
    const asking = Promise.resolve(run).then(canCall);
    const answer: unknown = await untilAborted<unknown>(asking, link.signal);
    return isRefusal(answer) ? answer : answer === true;
  } catch (error) {
    if (signal?.aborted) throw Interruption.from(signal);
    logger.error(
      `The canCall of ${spec.declaredId} failed, so the tool is denied (run ${run.runId}).`,
      error,
    );
    return false;
  } finally {
    link.release();
  }
}

/**
 * Finds the instance of an entity tool again, under the actor the run has now. An instance that is
 * not found, or not clearly the one, is not called.
 */
export class EntityRehydration {
  /**
   * Look-ups that are under way, by the run's state map, the one object all calls of a run share.
   */
  private readonly underWay = new WeakMap<
    RunContext['state'],
    Map<string, Promise<object | undefined>>
  >();

  /**
   * Returns the tool on the instance as it is now.
   *
   * @throws {CallFailure} `tool_gone`, `forbidden`, `execution_failed`, `timeout` or `aborted`.
   */
  async fresh(call: ResolvedCall, rehydration: ToolRehydration): Promise<Tool> {
    const { tool, scope, limits } = call;
    const { spec, entity } = tool;
    const { toolCallMs: ms } = limits;
    const looking = scope.rehearsal
      ? inPlace(call, () => this.found(rehydration, scope))
      : this.shared(rehydration, scope);
    const link = linkSignal(scope.signal, { ms, message: outOfTime(ms) });
    try {
      const instance = await untilAborted(looking, link.signal);
      if (!instance) throw gone(tool);
      return { ...rehydration.on(instance), spec, ...(entity && { entity }), rehydration };
    } catch (error) {
      throw error instanceof CallFailure
        ? error
        : new CallFailure(refusalOf(error, tool), { cause: error });
    } finally {
      link.release();
    }
  }

  /**
   * One look-up for all calls that wait for it. Once it is answered the next call asks anew:
   * between the two a write may have been made.
   */
  private shared(rehydration: ToolRehydration, scope: ExecutionScope): Promise<object | undefined> {
    const { key } = rehydration;
    const { run } = scope;
    const open = this.underWay.get(run.state) ?? new Map<string, Promise<object | undefined>>();
    this.underWay.set(run.state, open);
    const known = open.get(key);
    if (known) return known;
    const answer = this.found(rehydration, scope).finally(() => open.delete(key));
    open.set(key, answer);
    return answer;
  }

  private found(
    { lookUp }: ToolRehydration,
    { run, limits: { toolCallMs: ms }, signal }: ExecutionScope,
  ): Promise<object | undefined> {
    const link = linkSignal(signal, { ms, message: outOfTime(ms) });
    const looking = Promise.resolve({ ...run, signal: link.signal }).then(lookUp);
    return untilAborted(looking, link.signal).finally(() => link.release());
  }
}

function outOfTime(ms: number): string {
  return `What the tool belongs to was not found within ${ms} ms.`;
}

const GONE = new Set([404, 410]);
const FORBIDDEN = new Set([401, 403]);

/**
 * Returns the failure of a look-up. An error that a resolver throws on purpose is told as such; any
 * other may pass, and its cause is in the log.
 */
function refusalOf(error: unknown, tool: Tool): ToolFailure {
  if (error instanceof Interruption)
    return { ...interruptionFailure(error), retryable: error.kind === 'timeout' };
  if (error instanceof ForeignEntityError || error instanceof ToolError) return failureOf(error);
  const status = error instanceof HttpException ? error.getStatus() : undefined;
  if (status !== undefined && GONE.has(status)) return gone(tool).failure;
  if (status !== undefined && FORBIDDEN.has(status)) return failureOf(error);
  return {
    code: 'execution_failed',
    safeMessage:
      'The object of the tool could not be looked up, so the call was not made. The same call may succeed later.',
    retryable: true,
    correlationId: randomUUID(),
  };
}

/**
 * Returns the failure for an entity that is gone or not this actor's: the model is not told which.
 * Nor is the id told, which may be anybody's words.
 */
function gone({ spec, givenBy }: Tool): CallFailure {
  const back = givenBy === undefined ? '' : ` Call ${givenBy} to see what there is now.`;
  return CallFailure.of(
    'tool_gone',
    `The tool "${spec.id}" is no longer available: what it belongs to was not found any more.${back}`,
  );
}

/** A sub-run whose time is up ends by itself and says so; until then its call is not cut off. */
const GRACE_MS = 1_000;

/** The limits of a call under the decision that let it in. */
export function limitsOf(
  tool: Tool,
  { limits }: ExecutionScope,
  decision: Decision | undefined,
): ResolvedCall['limits'] {
  const { argumentBytes, resultBytes } = limits;
  const budget = decision?.callBudget;
  const toolCallMs = Math.min(timeOf(tool, limits), budget?.maxRuntimeMs ?? Infinity);
  return {
    argumentBytes: Math.min(argumentBytes, budget?.maxArgsBytes ?? Infinity),
    resultBytes: Math.min(resultBytes, budget?.maxResultBytes ?? Infinity),
    toolCallMs: tool.subRun ? toolCallMs + GRACE_MS : toolCallMs,
  };
}

/** Milliseconds for the run of a call. */
export function subRunMs({ toolCallMs }: ResolvedCall['limits']): number {
  return toolCallMs - GRACE_MS;
}

function timeOf(tool: Tool, limits: Limits): number {
  if (!tool.subRun) return tool.timeoutMs ?? limits.toolCallMs;
  return Math.min(tool.timeoutMs ?? Infinity, tool.subRun.limits?.runMs ?? Infinity, limits.runMs);
}
