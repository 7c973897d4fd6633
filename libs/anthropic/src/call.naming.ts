import type { ToolCall } from '@toolloop/core';

/**
 * Gives the calls of one transcript their ids on the wire. The provider's own id is kept, but the API takes an id once in a conversation and no
 * other characters than these, while a transcript may hold the calls of many providers.
 */
export class CallNaming {
  private readonly used = new Set<string>();

  /** The ids of one message's calls, by ours. */
  name(calls: readonly ToolCall[]): ReadonlyMap<string, string> {
    return new Map(calls.map((call) => [call.toolCallId, this.claim(call)]));
  }

  private claim({ toolCallId, providerCallId = toolCallId }: ToolCall): string {
    const [theirs, ours] = [toWireId(providerCallId), toWireId(toolCallId)];
    let id = this.used.has(theirs) ? ours : theirs;
    for (let suffix = 2; this.used.has(id); suffix += 1) id = `${ours}_${suffix}`;
    this.used.add(id);
    return id;
  }
}

function toWireId(id: string): string {
  return id.replaceAll(/[^a-zA-Z0-9_-]/g, '_') || '_';
}
