import { Injectable } from '@nestjs/common';
import {
  ConversationStore,
  type ConversationKey,
  type ConversationListing,
  type ConversationOwner,
  type ConversationSummary,
  type MessagePage,
} from '../protocol/conversation-store.js';
import type { Message } from '../protocol/message.js';

const MOST_CONVERSATIONS = 1_000;
const MOST_MESSAGES = 200;

/**
 * Keeps conversations for as long as the process lives: of each the last 200 messages. The least recently used one goes when there are more than
 * 1,000.
 */
@Injectable()
export class MemoryConversationStore extends ConversationStore {
  /** The last used is the last. */
  private readonly conversations = new Map<string, KeptConversation>();

  override load(key: ConversationKey): Promise<readonly Message[]> {
    return Promise.resolve(this.messagesOf(key));
  }

  override append(key: ConversationKey, messages: readonly Message[]): Promise<void> {
    if (messages.length === 0) return Promise.resolve();
    const text = textOf(key);
    const kept = newest([...this.messagesOf(key), ...messages]);
    this.conversations.delete(text);
    this.conversations.set(text, { key, messages: kept, updatedAt: new Date().toISOString() });
    const [oldest] = this.conversations.keys();
    if (this.conversations.size > MOST_CONVERSATIONS && oldest !== undefined) this.conversations.delete(oldest);
    return Promise.resolve();
  }

  override list(
    { tenant, actorId }: ConversationOwner,
    { limit = 100, after }: ConversationListing = {},
  ): Promise<readonly ConversationSummary[]> {
    const own = [...this.conversations.values()].toReversed().filter(({ key }) => key.tenant === tenant && key.actorId === actorId);
    const start = after === undefined ? 0 : own.findIndex(({ key }) => key.conversationId === after) + 1;
    const page = own.slice(start, start + limit);
    return Promise.resolve(
      page.map(({ key, messages, updatedAt }) => ({ conversationId: key.conversationId, messages: messages.length, updatedAt })),
    );
  }

  override read(key: ConversationKey, { from, limit }: MessagePage): Promise<readonly Message[]> {
    return Promise.resolve(this.messagesOf(key).slice(from, from + limit));
  }

  override delete(key: ConversationKey): Promise<boolean> {
    return Promise.resolve(this.conversations.delete(textOf(key)));
  }

  private messagesOf(key: ConversationKey): readonly Message[] {
    return this.conversations.get(textOf(key))?.messages ?? [];
  }
}

interface KeptConversation {
  readonly key: ConversationKey;
  readonly messages: readonly Message[];
  readonly updatedAt: string;
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
