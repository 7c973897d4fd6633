import type { ToolChoice, ToolSpec } from '@toolloop/core';
import type { WireObject } from './wire-object.js';

const encodedTools = new WeakMap<ToolSpec, string>();
const encodedToolsets = new WeakMap<readonly ToolSpec[], string>();

/** The tools of a request as JSON texts with commas between; the provider's own stand first, since ours may grow in number. */
export function toTools(tools: readonly ToolSpec[], serverTools: readonly WireObject[]): string {
  const own = toOwnTools(tools);
  const theirs = serverTools.map((tool) => JSON.stringify(tool));
  return [...theirs, ...(own === '' ? [] : [own])].join(',');
}

/** Undefined where the provider's own default says the same. */
export function toToolChoice(choice: ToolChoice | undefined, parallelToolCalls: boolean): string | undefined {
  if (choice === 'none') return '{"type":"none"}';
  if (choice === undefined && parallelToolCalls) return undefined;
  const single = !parallelToolCalls && { disable_parallel_tool_use: true };
  if (typeof choice === 'object') return JSON.stringify({ type: 'tool', name: choice.tool, ...single });
  return JSON.stringify({ type: choice === 'required' ? 'any' : 'auto', ...single });
}

function toOwnTools(tools: readonly ToolSpec[]): string {
  const known = encodedToolsets.get(tools);
  if (known !== undefined) return known;
  const text = tools.map(toTool).join(',');
  encodedToolsets.set(tools, text);
  return text;
}

/** Labels, effect and the like are ours: the model is told what the tool does and what it takes. */
function toTool(spec: ToolSpec): string {
  const known = encodedTools.get(spec);
  if (known !== undefined) return known;
  const text = JSON.stringify({ name: spec.id, description: spec.description, input_schema: spec.inputSchema });
  encodedTools.set(spec, text);
  return text;
}
