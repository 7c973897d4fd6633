import { Injectable } from '@nestjs/common';
import { ConversationStore, type ConversationKey } from '../protocol/conversation-store.js';
import type { Message } from '../protocol/message.js';

const MOST_CONVERSATIONS = 1_000;
const MOST_MESSAGES = 200;

/**
 * Keeps conversations for as long as the process lives: of each the last 200 messages. The least recently used one goes when there are more than
 * 1,000.
 */
@Injectable()
export class MemoryConversationStore extends ConversationStore {
  private readonly conversations = new Map<string, readonly Message[]>();

  override load(key: ConversationKey): Promise<readonly Message[]> {
    return Promise.resolve(this.conversations.get(textOf(key)) ?? []);
  }

  override append(key: ConversationKey, messages: readonly Message[]): Promise<void> {
    const text = textOf(key);
    const before = this.conversations.get(text) ?? [];
    this.conversations.delete(text);
    this.conversations.set(text, newest([...before, ...messages]));
    const [oldest] = this.conversations.keys();
    if (this.conversations.size > MOST_CONVERSATIONS && oldest !== undefined) this.conversations.delete(oldest);
    return Promise.resolve();
  }
}

/** The last messages, from a user's on, so that no call stands without its result. */
function newest(messages: readonly Message[]): readonly Message[] {
  if (messages.length <= MOST_MESSAGES) return messages;
  const from = messages.findIndex(({ role }, index) => role === 'user' && index >= messages.length - MOST_MESSAGES);
  return from < 0 ? messages.slice(messages.findLastIndex(({ role }) => role === 'user')) : messages.slice(from);
}

function textOf({ tenant, actorId, conversationId }: ConversationKey): string {
  return JSON.stringify([tenant, actorId, conversationId]);
}
