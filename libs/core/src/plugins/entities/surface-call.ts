import type { ToolCall } from '@toolloop/protocol';
import type { RoutedCall } from '../../call/call.js';
import type { Toolset } from '../../catalog/toolset.js';
import type { MeantCall, Tool } from '../../contracts/tool.js';
import { compactJson, parseJson } from '../../schema/canonical-json.js';

/**
 * Resolves a call over a surface; undefined for a call of any other tool, and for one that means no
 * tool that is there. All later stages see the very call of the entity's own tool, so that policy,
 * approvals, records and events cannot tell one surface from another.
 */
export function resolveSurfaceCall(
  call: ToolCall,
  toolset: Toolset,
  mostArgumentBytes: number,
): RoutedCall | undefined {
  const surface = toolset.find(call.name)?.surface;
  if (!surface || Buffer.byteLength(call.arguments) > mostArgumentBytes + MOST_ADDED_BYTES)
    return undefined;
  const sent = parseJson(call.arguments);
  const meant = sent === undefined ? undefined : surface.meant(sent);
  const tool = meant && toolset.member(meant.declaredId, meant.instanceId);
  return meant && tool && { call: rewritten(call, tool, meant), tool };
}

/**
 * More than what a surface adds to the arguments: a larger text has too large arguments, whatever
 * it means.
 */
const MOST_ADDED_BYTES = 1024;

function rewritten(call: ToolCall, { spec }: Tool, { args }: MeantCall): ToolCall {
  return { ...call, name: spec.id, arguments: compactJson(args) };
}
