import type { Message } from '@toolloop/protocol';
import {
  type ConversationKey,
  type ConversationListing,
  type ConversationOwner,
  ConversationStore,
  type ConversationSummary,
  type CutTurns,
  type KeptTurn,
  type LeftInput,
  type MessagePage,
  nameOf,
  TAKEN_TOLD_MS,
} from '../contracts/conversation.js';
import { type Lease, type LeaseRequest, leftMs, nextLease } from '../contracts/lease.js';
import { BoundedTable } from './bounded-table.js';

/**
 * Keeps conversations in memory, with the last 200 messages of each. Beyond 1,000 of an actor that
 * actor's least recently used one is dropped. Beyond 10,000 of a tenant the actor with the most
 * loses one.
 */
export class MemoryConversationStore extends ConversationStore {
  /** The conversations by tenant, then by actor and id, in the order of their last use. */
  private readonly tenants = new Map<string, BoundedTable<KeptConversation>>();
  /** The leases of the runs that are under way. */
  private readonly turns = new Map<string, Lease>();
  /** The inputs that people have added, by conversation and id. */
  private readonly inputs = new BoundedTable<KeptInput>({
    isOver: ({ until, takenBy }) => until + (takenBy ? TAKEN_TOLD_MS : 0) <= Date.now(),
  });
  /** The position of the last part. */
  private last = 0;

  override load(key: ConversationKey): Promise<readonly Message[]> {
    return Promise.resolve(this.messagesOf(key));
  }

  override append(
    key: ConversationKey,
    messages: readonly Message[],
    runId?: string,
  ): Promise<void> {
    if (messages.length === 0) return Promise.resolve();
    const { tenant, actorId, conversationId } = key;
    const own =
      this.tenants.get(tenant) ??
      new BoundedTable<KeptConversation>({ most: MAX_OF_AN_ACTOR, mostInAll: MAX_OF_A_TENANT });
    this.tenants.set(tenant, own);
    const part = { runId, messages, position: (this.last += 1) };
    const parts = newest(withPart(this.partsOf(key), part));
    own.renew(actorId, conversationId, { parts, updatedAt: new Date().toISOString() });
    return Promise.resolve();
  }

  override claim(conversation: ConversationKey, request: LeaseRequest): Promise<boolean> {
    const key = nameOf(conversation);
    const held = this.turns.get(key);
    if (held && held.owner !== request.owner && leftMs(held) > 0) return Promise.resolve(false);
    if (request.forMs > 0) this.turns.set(key, nextLease(held ?? {}, request));
    else this.turns.delete(key);
    return Promise.resolve(true);
  }

  override leave(
    key: ConversationKey,
    input: LeftInput,
    forMs: number,
  ): Promise<string | undefined> {
    const takenBy = this.inputs.get(nameOf(key), input.id)?.takenBy;
    this.inputs.put(nameOf(key), input.id, { input, takenBy, until: Date.now() + forMs });
    return Promise.resolve(takenBy);
  }

  override left(key: ConversationKey, owner: string): Promise<readonly LeftInput[]> {
    const lease = this.turns.get(nameOf(key));
    if (lease?.owner !== owner || leftMs(lease) <= 0) return Promise.resolve([]);
    return Promise.resolve(
      this.inputs
        .values(nameOf(key))
        .flatMap(({ input, takenBy }) => (takenBy === undefined ? input : [])),
    );
  }

  override take(key: ConversationKey, id: string, owner: string): Promise<string | undefined> {
    const kept = this.inputs.get(nameOf(key), id);
    if (!kept) return Promise.resolve(undefined);
    const takenBy = kept.takenBy ?? owner;
    this.inputs.put(nameOf(key), id, { ...kept, takenBy });
    return Promise.resolve(takenBy);
  }

  override list(
    { tenant, actorId }: ConversationOwner,
    { limit = 100, after }: ConversationListing = {},
  ): Promise<readonly ConversationSummary[]> {
    const all = (this.tenants.get(tenant)?.entries(actorId) ?? []).toReversed();
    const own = all.filter(([, { parts }]) => messagesIn(parts).length > 0);
    const start =
      after === undefined ? 0 : own.findIndex(([conversationId]) => conversationId === after) + 1;
    const page = own.slice(start, start + limit);
    return Promise.resolve(
      page.map(([conversationId, { parts, updatedAt }]) => ({
        conversationId,
        messages: messagesIn(parts).length,
        updatedAt,
      })),
    );
  }

  override read(key: ConversationKey, { from, limit }: MessagePage): Promise<readonly Message[]> {
    return Promise.resolve(this.messagesOf(key).slice(from, from + limit));
  }

  override turn(key: ConversationKey, id: string): Promise<KeptTurn | undefined> {
    const named = this.partsOf(key).filter((part) => isNamed(part, id));
    const found = named.findLast(({ cutBy }) => cutBy === undefined) ?? named.at(-1);
    return Promise.resolve(found && turnOf(found));
  }

  override cut(
    { tenant, actorId, conversationId }: ConversationKey,
    turns: CutTurns,
    runId: string,
  ): Promise<void> {
    const own = this.tenants.get(tenant);
    const kept = own?.get(actorId, conversationId);
    if (!own || !kept) return Promise.resolve();
    const isCut = ({ position, cutBy }: Part): boolean =>
      'from' in turns ? cutBy === undefined && position >= turns.from : cutBy === turns.cutBy;
    own.put(actorId, conversationId, {
      ...kept,
      parts: kept.parts.map((part) =>
        isCut(part) ? Object.assign({}, part, { cutBy: runId }) : part,
      ),
    });
    return Promise.resolve();
  }

  override cutBy(key: ConversationKey, runId: string): Promise<readonly KeptTurn[]> {
    const cut = this.partsOf(key).filter(({ cutBy }) => cutBy === runId);
    return Promise.resolve(cut.map(turnOf));
  }

  override delete({ tenant, actorId, conversationId }: ConversationKey): Promise<boolean> {
    return Promise.resolve(this.tenants.get(tenant)?.delete(actorId, conversationId) ?? false);
  }

  private messagesOf({ tenant, actorId, conversationId }: ConversationKey): readonly Message[] {
    return messagesIn(this.partsOf({ tenant, actorId, conversationId }));
  }

  private partsOf({ tenant, actorId, conversationId }: ConversationKey): readonly Part[] {
    return this.tenants.get(tenant)?.get(actorId, conversationId)?.parts ?? [];
  }
}

const MAX_OF_AN_ACTOR = 1_000;
const MAX_OF_A_TENANT = 10_000;
const MAX_MESSAGES = 200;

interface KeptConversation {
  readonly parts: readonly Part[];
  readonly updatedAt: string;
}

/** The messages that one run added. */
interface Part {
  readonly runId: string | undefined;
  readonly messages: readonly Message[];
  readonly position: number;
  /** The run for which it was cut. */
  readonly cutBy?: string;
}

interface KeptInput {
  readonly input: LeftInput;
  readonly takenBy: string | undefined;
  readonly until: number;
}

function messagesIn(parts: readonly Part[]): readonly Message[] {
  return parts.flatMap(({ messages, cutBy }) => (cutBy === undefined ? messages : []));
}

function isNamed({ runId, messages }: Part, id: string): boolean {
  return (
    runId === id || messages.some((message) => message.role === 'user' && message.messageId === id)
  );
}

function turnOf({ runId, messages, position, cutBy }: Part): KeptTurn {
  return {
    position,
    messages,
    ...(runId !== undefined && { runId }),
    ...(cutBy !== undefined && { cutBy }),
  };
}

function withPart(parts: readonly Part[], part: Part): readonly Part[] {
  const known =
    part.runId === undefined ? -1 : parts.findIndex(({ runId }) => runId === part.runId);
  const before = parts[known];
  return before ? parts.with(known, { ...before, messages: part.messages }) : [...parts, part];
}

/**
 * Returns the last parts, and of a part that is too long the last messages from a user's on, so
 * that every call keeps its result.
 */
function newest(parts: readonly Part[]): readonly Part[] {
  let room = MAX_MESSAGES;
  const kept: Part[] = [];
  for (const part of parts.toReversed()) {
    if (room <= 0) break;
    const { messages } = part;
    kept.unshift({ ...part, messages: lastOf(messages, room) });
    room -= messages.length;
  }
  return kept;
}

function lastOf(messages: readonly Message[], most: number): readonly Message[] {
  if (messages.length <= most) return messages;
  const from = messages.findIndex(
    ({ role }, index) => role === 'user' && index >= messages.length - most,
  );
  return from < 0
    ? messages.slice(messages.findLastIndex(({ role }) => role === 'user'))
    : messages.slice(from);
}
