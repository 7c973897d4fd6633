import type { Message } from '@toolloop/protocol';
import { filter, firstValueFrom, fromEvent, map, merge, Subject, take } from 'rxjs';
import { type ApprovalAnswer, type ApprovalQuery, type ApprovalRecord, ApprovalStore } from '../contracts/approval.js';
import { type AuditEntry, type AuditHead, AuditStore } from '../contracts/audit.js';
import { type Lease, type LeaseRequest, leftMs, nextLease } from '../contracts/lease.js';
import { QuotaStore, type QuotaUse } from '../contracts/limits.js';
import {
  type ConversationKey,
  type ConversationListing,
  type ConversationOwner,
  ConversationStore,
  type ConversationSummary,
  type MessagePage,
} from '../contracts/stores.js';

const MOST_APPROVALS = 10_000;

/** Keeps approvals for as long as the process lives. Past 10,000 of a tenant its oldest goes, which is as if it had expired. */
export class MemoryApprovalStore extends ApprovalStore {
  private readonly records = new Map<string, ApprovalRecord>();
  /** So that a tenant that floods takes nothing from another. */
  private readonly ofTenants = new Map<string, Set<string>>();
  /** The leases of those who are deciding. */
  private readonly claims = new Map<string, Lease>();
  private readonly answers$ = new Subject<ApprovalRecord>();

  override add(record: ApprovalRecord): Promise<void> {
    const { tenant } = record.binding;
    if (this.records.has(record.request.approvalId)) return Promise.resolve();
    const ids = this.ofTenants.get(tenant) ?? new Set();
    this.ofTenants.set(tenant, ids.add(record.request.approvalId));
    this.records.set(record.request.approvalId, record);
    const [oldest] = ids;
    if (ids.size > MOST_APPROVALS && oldest !== undefined) {
      ids.delete(oldest);
      this.records.delete(oldest);
    }
    return Promise.resolve();
  }

  override find(approvalId: string): Promise<ApprovalRecord | undefined> {
    return Promise.resolve(this.records.get(approvalId));
  }

  override list({ tenant, runId, pending = false, limit = 100, after }: ApprovalQuery): Promise<readonly ApprovalRecord[]> {
    const found = [...this.records.values()]
      .filter(({ binding }) => binding.tenant === tenant && (runId === undefined || binding.runId === runId))
      .filter(({ answer }) => !pending || !answer);
    const start = after === undefined ? 0 : found.findIndex(({ request }) => request.approvalId === after) + 1;
    return Promise.resolve(found.slice(start, start + limit));
  }

  override claim(approvalId: string, request: LeaseRequest): Promise<boolean> {
    const record = this.records.get(approvalId);
    const held = this.claims.get(approvalId);
    const isFree = !held || held.owner === request.owner || leftMs(held) === 0;
    if (!record || record.answer || !isFree) return Promise.resolve(false);
    this.claims.set(approvalId, nextLease(held ?? {}, request));
    return Promise.resolve(true);
  }

  override answer(approvalId: string, answer: ApprovalAnswer): Promise<ApprovalRecord | undefined> {
    const record = this.records.get(approvalId);
    if (!record || record.answer) return Promise.resolve(undefined);
    this.claims.delete(approvalId);
    const answered = { ...record, answer };
    this.records.set(approvalId, answered);
    this.answers$.next(answered);
    return Promise.resolve(answered);
  }

  override use(approvalId: string): Promise<boolean> {
    const record = this.records.get(approvalId);
    if (record?.answer?.decision !== 'approve' || record.isUsed) return Promise.resolve(false);
    this.records.set(approvalId, { ...record, isUsed: true });
    return Promise.resolve(true);
  }

  override async answered(approvalId: string, signal: AbortSignal): Promise<ApprovalRecord> {
    signal.throwIfAborted();
    const known = this.records.get(approvalId);
    if (known?.answer) return known;
    const aborted$ = fromEvent(signal, 'abort').pipe(
      map((): never => {
        throw signal.reason;
      }),
    );
    const answered$ = this.answers$.pipe(filter(({ request }) => request.approvalId === approvalId));
    return firstValueFrom(merge(answered$, aborted$).pipe(take(1)));
  }
}

const MOST_CONVERSATIONS = 1_000;
const MOST_MESSAGES = 200;

/**
 * Keeps conversations in memory, with the last 200 messages of each. Beyond 1,000 the least recently used one is dropped.
 */
export class MemoryConversationStore extends ConversationStore {
  /** The conversations in the order of their last use. */
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

/** The messages that one run added. */
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

/** Returns the last parts, and of a part that is too long the last messages from a user's on, so that every call keeps its result. */
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

/** Counts quotas in memory, for this process only. Beyond 100,000 the least recently used counter is dropped. */
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

const MOST_ENTRIES = 100_000;

/**
 * Keeps the audit in memory, for tests and first steps. An audit never drops entries silently, so a tenant's chain that is full, by default with 100,000
 * entries, accepts no more and the tenant's calls are refused; other tenants are not affected.
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

  /** Appends an entry, atomically, since reading the head and appending are synchronous. */
  private push(tenant: string, build: (head: AuditHead | undefined) => AuditEntry): void {
    const chain = this.chains.get(tenant) ?? [];
    if (chain.length >= this.mostEntries)
      throw new Error(`The audit in memory holds ${chain.length} entries of one tenant and accepts no more. Bind a durable AuditStore.`);
    chain.push(build(chain.at(-1)));
    this.chains.set(tenant, chain);
  }
}
