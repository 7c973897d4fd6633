import { Injectable } from '@nestjs/common';
import type { Message } from '@toolloop/protocol';
import { type AuditEntry, type AuditHead, AuditStore } from '../contracts/audit.js';
import { QuotaStore, type QuotaUse } from '../contracts/limits.js';
import {
  type ConversationKey,
  type ConversationListing,
  type ConversationOwner,
  ConversationStore,
  type ConversationSummary,
  type MessagePage,
  type SuspendedRun,
  SuspendedRunStore,
} from '../contracts/stores.js';

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

const MOST_COUNTERS = 100_000;

interface Counter {
  readonly window: number;
  readonly total: number;
}

/** Counts for as long as the process lives, and for this process only. The least recently used counter goes when there are more than 100,000. */
@Injectable()
export class MemoryQuotaStore extends QuotaStore {
  private readonly counters = new Map<string, Counter>();

  override use({ tenant, quantity, windowMs, amount }: QuotaUse): Promise<number> {
    const key = JSON.stringify([tenant, quantity, windowMs]);
    const window = Math.floor(Date.now() / windowMs);
    const known = this.counters.get(key);
    const total = (known?.window === window ? known.total : 0) + amount;
    this.counters.delete(key);
    this.counters.set(key, { window, total });
    const [oldest] = this.counters.keys();
    if (this.counters.size > MOST_COUNTERS && oldest !== undefined) this.counters.delete(oldest);
    return Promise.resolve(total);
  }
}

const MOST_RUNS = 1_000;

/** Keeps waiting runs for as long as the process lives. Past 1,000 the oldest goes. */
@Injectable()
export class MemorySuspendedRunStore extends SuspendedRunStore {
  private readonly runs = new Map<string, SuspendedRun>();

  override save(run: SuspendedRun): Promise<void> {
    this.runs.set(run.runId, run);
    const [oldest] = this.runs.keys();
    if (this.runs.size > MOST_RUNS && oldest !== undefined) this.runs.delete(oldest);
    return Promise.resolve();
  }

  override find(runId: string): Promise<SuspendedRun | undefined> {
    return Promise.resolve(this.runs.get(runId));
  }

  override take(runId: string): Promise<SuspendedRun | undefined> {
    const run = this.runs.get(runId);
    this.runs.delete(runId);
    return Promise.resolve(run);
  }
}

const MOST_ENTRIES = 100_000;

/**
 * Keeps the audit for as long as the process lives: for tests and first steps. An audit never forgets in silence, so a tenant's chain that is full, by
 * default with 100,000 entries, takes no more and its calls are refused; other tenants go on.
 */
export class MemoryAuditStore extends AuditStore {
  private readonly chains = new Map<string, AuditEntry[]>();
  private readonly mostEntries: number;

  constructor({ mostEntries = MOST_ENTRIES }: { readonly mostEntries?: number } = {}) {
    super();
    this.mostEntries = mostEntries;
  }

  override append(tenant: string, build: (head: AuditHead | undefined) => AuditEntry): Promise<void> {
    return new Promise((resolve) => resolve(this.push(tenant, build)));
  }

  override head(tenant: string): Promise<AuditHead | undefined> {
    return Promise.resolve(this.chains.get(tenant)?.at(-1));
  }

  override read(tenant: string, { from, limit }: { readonly from: number; readonly limit: number }): Promise<readonly AuditEntry[]> {
    const start = Math.max(from, 1) - 1;
    return Promise.resolve((this.chains.get(tenant) ?? []).slice(start, start + limit));
  }

  /** Nothing comes between reading the head and appending to it: that is what makes it atomic. */
  private push(tenant: string, build: (head: AuditHead | undefined) => AuditEntry): void {
    const chain = this.chains.get(tenant) ?? [];
    if (chain.length >= this.mostEntries)
      throw new Error(`The audit in memory holds ${chain.length} entries of one tenant and takes no more. Bind a durable AuditStore.`);
    chain.push(build(chain.at(-1)));
    this.chains.set(tenant, chain);
  }
}
