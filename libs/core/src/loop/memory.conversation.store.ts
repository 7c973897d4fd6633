import { Injectable } from '@nestjs/common';
import { ConversationStore, type ConversationKey } from '../protocol/conversation-store.js';
import type { Message } from '../protocol/message.js';

const MOST_CONVERSATIONS = 1_000;

/** Keeps conversations for as long as the process lives; the least recently used one goes when there are more than 1,000. */
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
    this.conversations.set(text, [...before, ...messages]);
    const [oldest] = this.conversations.keys();
    if (this.conversations.size > MOST_CONVERSATIONS && oldest !== undefined) this.conversations.delete(oldest);
    return Promise.resolve();
  }
}

function textOf({ tenant, actorId, conversationId }: ConversationKey): string {
  return JSON.stringify([tenant, actorId, conversationId]);
}
