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

  override append(key: ConversationKey, messages: readonly Message[], runId?: string): Promise<void> {
    if (messages.length === 0) return Promise.resolve();
    const text = textOf(key);
    const parts = newest(withPart(this.conversations.get(text)?.parts ?? [], { runId, messages }));
    this.conversations.delete(text);
    this.conversations.set(text, { key, parts, updatedAt: new Date().toISOString() });
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
      page.map(({ key, parts, updatedAt }) => ({ conversationId: key.conversationId, messages: messagesIn(parts).length, updatedAt })),
    );
  }

  override read(key: ConversationKey, { from, limit }: MessagePage): Promise<readonly Message[]> {
    return Promise.resolve(this.messagesOf(key).slice(from, from + limit));
  }

  override delete(key: ConversationKey): Promise<boolean> {
    return Promise.resolve(this.conversations.delete(textOf(key)));
  }

  private messagesOf(key: ConversationKey): readonly Message[] {
    return messagesIn(this.conversations.get(textOf(key))?.parts ?? []);
  }
}

interface KeptConversation {
  readonly key: ConversationKey;
  readonly parts: readonly Part[];
  readonly updatedAt: string;
}

/** What one run added. */
interface Part {
  readonly runId: string | undefined;
  readonly messages: readonly Message[];
}

function messagesIn(parts: readonly Part[]): readonly Message[] {
  return parts.flatMap(({ messages }) => messages);
}

function withPart(parts: readonly Part[], part: Part): readonly Part[] {
  const known = part.runId === undefined ? -1 : parts.findIndex(({ runId }) => runId === part.runId);
  return known === -1 ? [...parts, part] : parts.with(known, part);
}

/** The last parts, and of a part that is too long the last messages, from a user's on: no call stands without its result. */
function newest(parts: readonly Part[]): readonly Part[] {
  let room = MOST_MESSAGES;
  const kept: Part[] = [];
  for (const { runId, messages } of parts.toReversed()) {
    if (room <= 0) break;
    kept.unshift({ runId, messages: lastOf(messages, room) });
    room -= messages.length;
  }
  return kept;
}

function lastOf(messages: readonly Message[], most: number): readonly Message[] {
  if (messages.length <= most) return messages;
  const from = messages.findIndex(({ role }, index) => role === 'user' && index >= messages.length - most);
  return from < 0 ? messages.slice(messages.findLastIndex(({ role }) => role === 'user')) : messages.slice(from);
}

function textOf({ tenant, actorId, conversationId }: ConversationKey): string {
  return JSON.stringify([tenant, actorId, conversationId]);
}
