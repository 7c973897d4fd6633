import type { Message, ToolMessage } from '@toolloop/core';
import { EncodedOnce, type WireObject } from '@toolloop/wire';
import { CallNaming } from './call.naming.js';
import { providerDataOf } from './provider-data.js';
import { toAssistantBlocks, type WireIds } from './to-assistant-blocks.js';
import { toContentBlocks } from './to-content-blocks.js';

/** A transcript in the API's terms: content blocks as JSON texts, some of them one after another with commas between. */
export interface Conversation {
  /** What the system said before anybody else. */
  readonly system: readonly string[];
  readonly turns: readonly Turn[];
  /** Where the provider's code execution kept its files the last time. */
  readonly container: string | undefined;
}

export interface Turn {
  readonly role: 'user' | 'assistant' | 'system';
  readonly blocks: string[];
}

const encoded = new EncodedOnce<Message>();

/**
 * Messages of the same side become one turn: the API wants all results of an answer in the one user turn behind it. What the system says later
 * stands behind the user's turn it came in, the only place the API has for it.
 */
export function toConversation(messages: readonly Message[], model: string): Conversation {
  const [system, turns, late]: [string[], Turn[], string[]] = [[], [], []];
  const naming = new CallNaming();
  let wireIds: WireIds = new Map();
  let container: string | undefined;
  for (const message of messages) {
    if (message.role === 'assistant') {
      wireIds = naming.name(message.toolCalls ?? []);
      add(turns, 'system', late.splice(0));
      container = providerDataOf(message, model)?.container ?? container;
    }
    const text = toText(message, wireIds, model);
    if (text === '') continue;
    if (message.role === 'system') (turns.length === 0 ? system : late).push(text);
    else add(turns, message.role === 'assistant' ? 'assistant' : 'user', [text]);
  }
  add(turns, 'system', late);
  return { system, turns, container };
}

function add(turns: Turn[], role: Turn['role'], blocks: readonly string[]): void {
  if (blocks.length === 0) return;
  const last = turns.at(-1);
  if (last?.role === role) last.blocks.push(...blocks);
  else turns.push({ role, blocks: [...blocks] });
}

/** The blocks of a message; empty for one that says nothing. */
function toText(message: Message, wireIds: WireIds, model: string): string {
  switch (message.role) {
    case 'assistant': {
      const data = providerDataOf(message, model);
      return once(message, [data?.model, ...wireIds.values()].join(), () => toAssistantBlocks(message, wireIds, data));
    }
    case 'tool': {
      const id = wireIds.get(message.toolCallId) ?? message.toolCallId;
      return once(message, id, () => [JSON.stringify(toResult(message, id))]);
    }
    case 'system':
    case 'user':
      return once(message, '', () => toContentBlocks(message.content).map((block) => JSON.stringify(block)));
  }
}

function once(message: Message, key: string, encode: () => readonly string[]): string {
  return encoded.text(message, key, () => encode().join(','));
}

/** The API takes `is_error` of a result only where the result is text and says something. */
function toResult({ content, isError }: ToolMessage, id: string): WireObject {
  const blocks = toContentBlocks(content);
  const canFail = blocks.length > 0 && blocks.every(({ type }) => type === 'text');
  return {
    type: 'tool_result',
    tool_use_id: id,
    ...(blocks.length > 0 && { content: typeof content === 'string' ? content : blocks }),
    ...(isError === true && canFail && { is_error: true }),
  };
}
