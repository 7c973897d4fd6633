import type { Tool, ToolAnnotations } from '@modelcontextprotocol/server';
import type { ShownTool } from '@toolloop/core/contracts';
import type { ToolEffect, ToolSpec } from '@toolloop/protocol';

/**
 * Returns a tool as clients are told of it. What it hints about itself follows from its declared
 * effect.
 */
export function toWireTool({ spec, presentation }: ShownTool): Tool {
  const known = WIRE_TOOLS.get(spec);
  if (known) return known;
  const { id, description, inputSchema, outputSchema, effect } = spec;
  const tool: Tool = {
    name: id,
    ...(presentation?.label !== undefined && { title: presentation.label }),
    description,
    inputSchema: { ...dialectOf(inputSchema), ...jsonIn(inputSchema), type: 'object' },
    ...(outputSchema && { outputSchema: jsonIn(outputSchema) }),
    annotations: HINTS[effect],
  };
  WIRE_TOOLS.set(spec, tool);
  return tool;
}

/** A client that reads a schema without a dialect as draft 7 finds nothing under `$defs`. */
function dialectOf({ $defs }: ToolSpec['inputSchema']): Readonly<Record<string, string>> {
  return $defs === undefined ? {} : { $schema: 'https://json-schema.org/draft/2020-12/schema' };
}

/** A spec is frozen, so that what was made of it stays true. */
const WIRE_TOOLS = new WeakMap<ToolSpec, Tool>();

/**
 * Clients take a missing hint for the worst: a tool that changes things may destroy, and an
 * external effect is in the open world.
 */
const HINTS: Readonly<Record<ToolEffect, ToolAnnotations>> = {
  read_only: { readOnlyHint: true, openWorldHint: false },
  state_change: {
    readOnlyHint: false,
    destructiveHint: true,
    idempotentHint: false,
    openWorldHint: false,
  },
  external_side_effect: {
    readOnlyHint: false,
    destructiveHint: true,
    idempotentHint: false,
    openWorldHint: true,
  },
};

function jsonIn(schema: object): Record<string, unknown> {
  return { ...schema };
}
