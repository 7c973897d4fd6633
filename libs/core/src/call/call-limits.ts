import type { Decision } from '@toolloop/protocol';
import type { Limits } from '../contracts/limits.js';
import type { Tool } from '../contracts/tool.js';
import type { ExecutionScope, ResolvedCall } from './call.js';

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

/** A sub-run whose time is up ends by itself and says so; until then its call is not cut off. */
const GRACE_MS = 1_000;

/** Milliseconds for the run of a call. */
export function subRunMs({ toolCallMs }: ResolvedCall['limits']): number {
  return toolCallMs - GRACE_MS;
}

function timeOf(tool: Tool, limits: Limits): number {
  if (!tool.subRun) return tool.timeoutMs ?? limits.toolCallMs;
  return Math.min(tool.timeoutMs ?? Infinity, tool.subRun.limits?.runMs ?? Infinity, limits.runMs);
}
