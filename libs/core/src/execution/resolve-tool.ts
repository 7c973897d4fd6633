import { Injectable, Logger } from '@nestjs/common';
import type { Decision, JsonObject } from '@toolloop/protocol';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import { wayBack } from '../catalog/tool-removals.js';
import { closestTo, instanceKey, memberKey, methodIn, prefixIn } from '../catalog/tool-selection.js';
import type { Toolset } from '../catalog/toolset.js';
import type { Tool } from '../contracts/tool.js';
import { decide, isPermitted, subjectOf } from '../policy/policy-engine.js';
import { CallFailure, Interruption, linkSignal, untilAborted } from './call-failure.js';
import type { CallProgress, ExecutionScope } from './call.js';

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
    const cause = scope.toolset.removalOf(name);
    if (cause) throw CallFailure.of('tool_gone', `The tool "${name}" is no longer available. ${wayBack(cause)}`);
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
  return scope.toolset.shown.filter((tool) => isPermitted(tool, scope)).map(({ spec }) => spec.id);
}

/** Declared ids of the entities' tools that are there and may be called. */
function permittedMembers(scope: ExecutionScope): string[] {
  const members = new Map(scope.toolset.behindSurfaces.map((tool) => [tool.spec.declaredId, tool]));
  return [...members.values()].filter((tool) => isPermitted(tool, scope)).map(({ spec }) => spec.declaredId);
}

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
    const cause = toolset.removalOf(memberKey(declaredId, instanceId));
    if (cause) return CallFailure.of('tool_gone', `The tools of that ${prefix} are no longer available. ${wayBack(cause)}`);
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
  if (closest.length > 0) return `Did you mean ${closest.map(quotedId).join(' or ')}?`;
  if (present.length === 0) return 'Call a tool that returns it first.';
  const others = present.length - MOST_IDS;
  const known = present.slice(-MOST_IDS).map(quotedId).join(', ');
  return `There are ${known}${others > 0 ? ` and ${others} more` : ''}. For any other, call a tool that returns it first.`;
}

function quotedId(id: string): string {
  return JSON.stringify(shortened(id));
}

function shortened(id: string): string {
  return id.length > MOST_CHARACTERS ? `${id.slice(0, MOST_CHARACTERS)}…` : id;
}

/** For whom a tool's own hook is asked, and until when. */
export type HookScope = Pick<ExecutionScope, 'run' | 'limits'> & { readonly signal: AbortSignal | undefined };

const logger = new Logger('ToolPolicy');

/**
 * Policy's word on a tool and, where that does not deny it, the word of the tool's own `canCall`. Throws the interruption of a run that ends meanwhile.
 */
export function permissionFor(tool: Tool, scope: ExecutionScope): Decision | Promise<Decision> {
  const decision = decide(scope.policies, subjectOf(tool, scope.actor));
  // Most tools have no word of their own, and wait for nothing.
  return decision.kind === 'deny' || !tool.canCall ? decision : withOwnWord(tool, decision, scope);
}

async function withOwnWord(tool: Tool, decision: Decision, scope: ExecutionScope): Promise<Decision> {
  if (await letsIn(tool, scope)) return decision;
  const { policyVersion, shadow } = decision;
  return { kind: 'deny', rule: 'canCall', reason: 'The tool does not let this actor call it.', policyVersion, ...(shadow && { shadow }) };
}

/** Those of the tools whose own `canCall` lets the run's actor in; all are asked at once. Throws as {@link permissionFor} does. */
export async function callable(tools: readonly Tool[], scope: HookScope): Promise<readonly Tool[]> {
  const answers = await Promise.all(tools.map((tool) => letsIn(tool, scope)));
  return tools.filter((_, index) => answers[index]);
}

/** The toolset without the tools whose own `canCall` keeps the run's actor out. Throws as {@link permissionFor} does. */
export async function strictlyListed(toolset: Toolset, scope: HookScope): Promise<Toolset> {
  const { tools } = toolset;
  const listed = new Set(await callable(tools, scope));
  return listed.size === tools.length ? toolset : toolset.filter((tool) => listed.has(tool) && !isOfNone(tool, tools, listed));
}

/** Whether it is a surface of tools none of which is listed. */
function isOfNone({ surface }: Tool, tools: readonly Tool[], listed: ReadonlySet<Tool>): boolean {
  if (surface?.kind !== 'grouped') return false;
  const members = tools.filter(({ spec, entity }) => entity && surface.offers.has(spec.declaredId));
  return members.length > 0 && !members.some((tool) => listed.has(tool));
}

/** What it throws denies, and so does silence until the tool's time is up. */
async function letsIn({ spec, canCall, timeoutMs }: Tool, { run, limits, signal }: HookScope): Promise<boolean> {
  if (!canCall) return true;
  const ms = timeoutMs ?? limits.toolCallMs;
  const link = linkSignal(signal, { ms, message: `It did not answer within ${ms} ms.` });
  try {
    const asking = Promise.resolve(run).then(canCall); // so that what it throws at once is a rejection like any
    return (await untilAborted<unknown>(asking, link.signal)) === true;
  } catch (error) {
    if (signal?.aborted) throw Interruption.from(signal);
    logger.error(`The canCall of ${spec.declaredId} failed, so the tool is denied (run ${run.runId}).`, error);
    return false;
  } finally {
    link.release();
  }
}
