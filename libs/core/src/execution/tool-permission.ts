import { Logger } from '@nestjs/common';
import type { Toolset } from '../catalog/toolset.js';
import { subjectOf } from '../policy/policy-subject.js';
import { decide } from '../policy/strictest-decision.js';
import type { Decision } from '../protocol/policy.js';
import type { Tool } from '../protocol/tool.js';
import type { ExecutionScope } from './execution.scope.js';
import { Interruption, linkSignal, untilAborted } from './interruption.js';

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
  const tools = toolset.reachable.flatMap(({ id }) => toolset.held(id) ?? []);
  const listed = new Set(await callable(tools, scope));
  if (listed.size === tools.length) return toolset;
  const isListed = (id: string): boolean => {
    const tool = toolset.find(id);
    return tool !== undefined && listed.has(tool) && !isOfNone(tool, tools, listed);
  };
  const specs = toolset.specs.filter(({ id }) => isListed(id));
  return toolset.only(specs, (tool) => listed.has(tool));
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
