import type { ToolCall } from '@toolloop/core';
import { parseWireObject } from './wire-object.js';

const NONE: ReadonlyMap<string, string> = new Map();

/**
 * The ids a provider knows the calls of one message by, where they differ from ours. Where it gave two calls the same id, the second goes by ours:
 * a result has to find its call.
 */
export function wireIdsOf(calls: readonly ToolCall[] | undefined): ReadonlyMap<string, string> {
  if (calls === undefined || calls.every(({ providerCallId }) => providerCallId === undefined)) return NONE;
  const ids = new Map<string, string>();
  const taken = new Set<string>();
  for (const { toolCallId, providerCallId } of calls) {
    const id = providerCallId === undefined || taken.has(providerCallId) ? toolCallId : providerCallId;
    taken.add(id);
    ids.set(toolCallId, id);
  }
  return ids;
}

/** A model may have invented a name that its provider refuses to read again; the refusal in the transcript says what was wrong. */
export function toWireName(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || '_';
}

/** Providers refuse a transcript with arguments that are not a JSON object; the error result in the transcript explains what they were. */
export function toWireArguments(text: string): string {
  return parseWireObject(text) === undefined ? '{}' : text;
}
