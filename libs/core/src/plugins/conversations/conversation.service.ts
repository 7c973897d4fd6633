import { Injectable } from '@nestjs/common';
import type { Message, ShownCall } from '@toolloop/protocol';
import type {
  ConversationKey,
  ConversationListing,
  ConversationStore,
  ConversationSummary,
  MessagePage,
} from '../../contracts/conversation.js';
import type { RegisteredActor } from '../../contracts/registered-actor.js';
import { BoundedStores } from '../../call/bounded-stores.js';
import { ActorIdentity } from '../../policy/actor-identity.js';

/**
 * Lets people read and delete their own conversations. Those of others, and of other tenants, do
 * not exist; an actor without an id has none.
 */
@Injectable()
export class ConversationService<Actor = RegisteredActor> {
  private readonly store: ConversationStore;

  constructor(
    stores: BoundedStores,
    private readonly identity: ActorIdentity<Actor>,
  ) {
    this.store = stores.conversations;
  }

  /**
   * Lists the conversations of an actor, the last used first.
   *
   * @example
   * const recent = await conversations.list({ actor, tenant }, { limit: 20 });
   */
  async list(
    reader: ConversationReader<Actor>,
    listing?: ConversationListing,
  ): Promise<readonly ConversationSummary[]> {
    const { tenant } = reader;
    const actorId = this.identity.idOf(reader.actor);
    return actorId === undefined ? [] : this.store.list({ tenant, actorId }, listing);
  }

  /**
   * Returns a page of a conversation: what was said, and the outcomes of calls as people see them.
   * What the model alone may see is left out. Undefined if there is no such conversation.
   *
   * @example
   * const page = await conversations.read(id, { actor, tenant });
   */
  async read(
    conversationId: string,
    reader: ConversationReader<Actor>,
    page: Partial<MessagePage> = {},
  ): Promise<ConversationPart | undefined> {
    const key = this.keyOf(conversationId, reader);
    if (!key) return undefined;
    const { from, limit } = { ...PAGE, ...page };
    const messages = await this.store.read(key, { from, limit: limit + 1 });
    if (
      messages.length === 0 &&
      (from === 0 || (await this.store.read(key, { from: 0, limit: 1 })).length === 0)
    )
      return undefined;
    const entries = messages
      .slice(0, limit)
      .flatMap((message, index) => entryOf(message, from + index));
    return { conversationId, entries, ...(messages.length > limit && { next: from + limit }) };
  }

  /**
   * Deletes a conversation; resolves to whether there was one.
   *
   * @example
   * if (!(await conversations.delete(id, { actor, tenant }))) throw new NotFoundException();
   */
  async delete(conversationId: string, reader: ConversationReader<Actor>): Promise<boolean> {
    const key = this.keyOf(conversationId, reader);
    return key !== undefined && this.store.delete(key);
  }

  private keyOf(
    conversationId: string,
    { actor, tenant }: ConversationReader<Actor>,
  ): ConversationKey | undefined {
    const actorId = this.identity.idOf(actor);
    return actorId === undefined || typeof conversationId !== 'string'
      ? undefined
      : { tenant, actorId, conversationId };
  }
}

const PAGE: MessagePage = { from: 0, limit: 100 };

/** The owner of conversations, as the application identified them, never as a client claims. */
export interface ConversationReader<Actor = RegisteredActor> {
  readonly actor: Actor;
  readonly tenant: string;
}

/** A message of a conversation, for people to read. */
export interface ConversationEntry {
  /** The position among the stored messages, from 0. */
  readonly position: number;
  readonly role: 'user' | 'assistant' | 'tool';
  /** Empty for the outcome of a call. */
  readonly text: string;
  /** The client's own id of a message of the user, if it gave one. */
  readonly messageId?: string;
  /** The call whose outcome it is, as people see it. */
  readonly call?: ShownCall;
}

/** A part of a conversation as its owner may see it. */
export interface ConversationPart {
  readonly conversationId: string;
  readonly entries: readonly ConversationEntry[];
  /** The `from` of the next page; absent if there is none. */
  readonly next?: number;
}

function entryOf(message: Message, position: number): ConversationEntry[] {
  const { role, content } = message;
  if (role === 'tool')
    return message.shown ? [{ position, role, text: '', call: message.shown }] : [];
  if (role === 'system') return [];
  const text =
    typeof content === 'string'
      ? content
      : content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
  const named = role === 'user' &&
    message.messageId !== undefined && { messageId: message.messageId };
  return text === '' ? [] : [{ position, role, text, ...named }];
}
