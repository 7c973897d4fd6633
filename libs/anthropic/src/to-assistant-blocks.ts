import type { AssistantMessage, ToolCall } from '@toolloop/core';
import { toWireArguments, toWireName, type WireObject } from '@toolloop/wire';
import type { ProviderData } from './provider-data.js';
import { isBlank } from './to-content-blocks.js';

/** The ids a transcript's calls go by, by ours. */
export type WireIds = ReadonlyMap<string, string>;

/** The content blocks of an answer as JSON texts, in the order the model wrote them where its provider data says so. */
export function toAssistantBlocks(message: AssistantMessage, wireIds: WireIds, data: ProviderData | undefined): readonly string[] {
  const { content, toolCalls = [] } = message;
  const blocks = data?.blocks;
  // Where the text has changed since, its blocks cannot be told apart any more.
  if (blocks === undefined || lengthOf(blocks) !== content.length) {
    return [...toText(content), ...toolCalls.map((call) => toCall(call, wireIds))];
  }
  return inOrder(blocks, message, wireIds);
}

function lengthOf(blocks: readonly WireObject[]): number {
  return blocks.reduce((sum, { type, length }) => sum + (type === 'text' ? Number(length) : 0), 0);
}

function inOrder(blocks: readonly WireObject[], { content, toolCalls = [] }: AssistantMessage, wireIds: WireIds): readonly string[] {
  const calls = new Map<unknown, ToolCall>(toolCalls.map((call) => [call.providerCallId ?? call.toolCallId, call]));
  const texts: string[] = [];
  let at = 0;
  for (const block of blocks) {
    if (block.type === 'text') texts.push(...toText(content.slice(at, (at += Number(block.length))), block));
    else if (block.type === 'tool_use') {
      const call = calls.get(block.id);
      calls.delete(block.id);
      if (call !== undefined) texts.push(toCall(call, wireIds, block));
    } else texts.push(JSON.stringify(block));
  }
  return [...texts, ...Array.from(calls.values(), (call) => toCall(call, wireIds))];
}

function toText(text: string, { citations }: WireObject = {}): readonly string[] {
  return isBlank(text) ? [] : [JSON.stringify({ type: 'text', text, citations })];
}

/** The arguments stand in it as the model wrote them: they are JSON already. */
function toCall(call: ToolCall, wireIds: WireIds, { caller, toolset_name }: WireObject = {}): string {
  const id = wireIds.get(call.toolCallId) ?? call.toolCallId;
  const head = JSON.stringify({ type: 'tool_use', id, name: toWireName(call.name), caller, toolset_name });
  return `${head.slice(0, -1)},"input":${toWireArguments(call.arguments).trim()}}`;
}
