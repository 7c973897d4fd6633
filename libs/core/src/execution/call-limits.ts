import type { Limits } from '../protocol/limits.js';
import type { Tool } from '../protocol/tool.js';
import type { CallProgress } from './execution.scope.js';

type CallLimits = Pick<Limits, 'argumentBytes' | 'resultBytes' | 'toolCallMs'>;

/** A sub-run whose time is up ends by itself and says so; until then its call is not cut off. */
const GRACE_MS = 1_000;

/** The limits of one call: the run's, and below them what its policy says. Known once the tool is. */
export function limitsOf(progress: CallProgress): CallLimits {
  const limits = limitsBelow(progress);
  return progress.tool?.subRun ? { ...limits, toolCallMs: limits.toolCallMs + GRACE_MS } : limits;
}

/** How long the run of a call may take. */
export function subRunMs(progress: CallProgress): number {
  return limitsBelow(progress).toolCallMs;
}

function limitsBelow({ scope, decision, tool }: CallProgress): CallLimits {
  const { argumentBytes, resultBytes } = scope.limits;
  const toolCallMs = timeOf(tool, scope.limits);
  const budget = decision?.callBudget;
  if (!budget) return { argumentBytes, resultBytes, toolCallMs };
  return {
    argumentBytes: Math.min(argumentBytes, budget.maxArgsBytes ?? Infinity),
    resultBytes: Math.min(resultBytes, budget.maxResultBytes ?? Infinity),
    toolCallMs: Math.min(toolCallMs, budget.maxRuntimeMs ?? Infinity),
  };
}

function timeOf(tool: Tool | undefined, limits: Limits): number {
  if (!tool?.subRun) return tool?.timeoutMs ?? limits.toolCallMs;
  return Math.min(tool.timeoutMs ?? Infinity, tool.subRun.limits?.runMs ?? Infinity, limits.runMs);
}
