import type { Toolset } from '../catalog/toolset.js';
import type { ToolCall } from '../protocol/message.js';
import type { MeantCall, Tool } from '../protocol/tool.js';
import { compactJson, parseJson } from './from-arguments.js';

/** More than what a surface adds to the arguments: a larger text has too large arguments, whatever it means. */
const MOST_ADDED_BYTES = 1024;

/** A call over a surface, and the tool of an entity that it means. */
export interface RoutedCall {
  /** The call as it would have been made of the entity's own tool. */
  readonly call: ToolCall;
  readonly tool: Tool;
}

/**
 * What a call over a surface means; undefined for a call of any other tool, and for one that means nothing that is there. Everything behind this sees
 * the very call of the entity's own tool, so that policy, approvals, records and events cannot tell one surface from another.
 */
export function meantCall(call: ToolCall, toolset: Toolset, mostArgumentBytes: number): RoutedCall | undefined {
  const surface = toolset.find(call.name)?.surface;
  if (!surface || Buffer.byteLength(call.arguments) > mostArgumentBytes + MOST_ADDED_BYTES) return undefined;
  const sent = parseJson(call.arguments);
  const meant = sent === undefined ? undefined : surface.meant(sent);
  const tool = meant && toolset.member(meant.declaredId, meant.instanceId);
  return meant && tool && { call: routed(call, tool, meant), tool };
}

function routed(call: ToolCall, { spec }: Tool, { args }: MeantCall): ToolCall {
  return { ...call, name: spec.id, arguments: compactJson(args) };
}
