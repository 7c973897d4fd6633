import type { Limits } from '../protocol/limits.js';
import type { Tool } from '../protocol/tool.js';
import type { CallProgress } from './execution.scope.js';

/** The limits of one call: the run's, and below them what its policy says. Known once the tool is. */
export function limitsOf({ scope, decision, tool }: CallProgress): Pick<Limits, 'argumentBytes' | 'resultBytes' | 'toolCallMs'> {
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
  return tool?.timeoutMs ?? limits.toolCallMs;
}
