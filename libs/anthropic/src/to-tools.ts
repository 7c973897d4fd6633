import type { ToolChoice, ToolSpec } from '@toolloop/core';
import { EncodedOnce, type WireObject } from '@toolloop/wire';
import { isExpressible, narrowed, SchemaRoom } from './strict-schema.js';

/** Strict tools that one request may have. */
const MOST_STRICT = 20;

const encodedTools = new EncodedOnce<ToolSpec>();
const encodedToolsets = new EncodedOnce<readonly ToolSpec[]>();

/**
 * The tools of a request as JSON texts with commas between; the provider's own stand first, since ours may grow in number. Where they are `strict`, the model is
 * held to the schemas of the first that allow it, as many as one request may have.
 */
export function toTools(tools: readonly ToolSpec[], serverTools: readonly WireObject[], isStrict = false): string {
  const own = isStrict ? toStrictTools(tools) : toOwnTools(tools);
  const theirs = serverTools.map((tool) => JSON.stringify(tool));
  return [...theirs, ...(own === '' ? [] : [own])].join(',');
}

/** Undefined where the provider's own default says the same. */
export function toToolChoice(choice: ToolChoice | undefined, parallelToolCalls: boolean): object | undefined {
  if (choice === 'none') return { type: 'none' };
  if (choice === undefined && parallelToolCalls) return undefined;
  const single = !parallelToolCalls && { disable_parallel_tool_use: true };
  if (typeof choice === 'object') return { type: 'tool', name: choice.tool, ...single };
  return { type: choice === 'required' ? 'any' : 'auto', ...single };
}

function toOwnTools(tools: readonly ToolSpec[]): string {
  return encodedToolsets.text(tools, '', () => tools.map(toTool).join(','));
}

function toStrictTools(tools: readonly ToolSpec[]): string {
  return encodedToolsets.text(tools, 'strict', () => {
    const room = new SchemaRoom();
    let strict = 0;
    const texts = tools.map((spec) => {
      const isStrict = strict < MOST_STRICT && isExpressible(spec.inputSchema) && room.admit(spec.inputSchema);
      if (isStrict) strict += 1;
      return isStrict ? toStrictTool(spec) : toTool(spec);
    });
    return texts.join(',');
  });
}

/** Labels, effect and the like are ours: the model is told what the tool does and what it takes. */
function toTool(spec: ToolSpec): string {
  const { id: name, description, inputSchema } = spec;
  return encodedTools.text(spec, '', () => JSON.stringify({ name, description, input_schema: inputSchema }));
}

function toStrictTool(spec: ToolSpec): string {
  const { id: name, description, inputSchema } = spec;
  return encodedTools.text(spec, 'strict', () =>
    JSON.stringify({ name, description, strict: true, input_schema: narrowed({ ...inputSchema }) }),
  );
}
