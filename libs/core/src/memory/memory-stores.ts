import type { Message } from '@toolloop/protocol';
import { filter, firstValueFrom, fromEvent, map, merge, Subject, take } from 'rxjs';
import {
  type DueNotice,
  isUsable,
  type NextNotice,
  type Pending,
  type PendingAnswer,
  type PendingQuery,
  PendingStore,
} from '../contracts/pending.js';
import { type AuditEntry, type AuditHead, AuditStore } from '../contracts/audit.js';
import { type Lease, type LeaseRequest, leftMs, nextLease } from '../contracts/lease.js';
import {
  type AccountAddition,
  type AccountKey,
  AccountStore,
  LASTING_MS,
  type SessionAccount,
} from '../contracts/session.js';
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

const MOST_PENDING = 10_000;

/**
 * Keeps what runs ask of people for as long as the process lives. Beyond 10,000 of a tenant its
 * oldest one that is answered or has expired is dropped; where all of them wait for a person, no
 * further one is accepted.
 */
export class MemoryPendingStore extends PendingStore {
  private readonly records = new Map<string, Pending>();
  /** The ids by tenant: a tenant that floods takes nothing from another. */
  private readonly ofTenants = new Map<string, Set<string>>();
  /** The leases of those who are deciding. */
  private readonly claims = new Map<string, Lease>();
  private readonly notices = new Map<string, KeptNotice>();
  private readonly answers$ = new Subject<Pending>();

  override add(record: Pending): Promise<void> {
    const { tenant } = record.binding;
    if (this.records.has(record.id)) return Promise.resolve();
    const ids = this.ofTenants.get(tenant) ?? new Set();
    if (ids.size >= MOST_PENDING && !this.forgetOldest(ids))
      return Promise.reject(
        new Error(
          `${MOST_PENDING} questions of one tenant wait in memory, and no more are accepted. Bind a durable PendingStore.`,
        ),
      );
    this.ofTenants.set(tenant, ids.add(record.id));
    this.records.set(record.id, record);
    if (record.noticeAt !== undefined)
      this.notices.set(record.id, {
        at: record.noticeAt,
        attempts: 0,
        dueAt: Date.parse(record.noticeAt),
      });
    return Promise.resolve();
  }

  private forgetOldest(ids: Set<string>): boolean {
    const oldest = [...ids].find((id) => {
      const record = this.records.get(id);
      return !record || record.answer !== undefined || Date.parse(record.expiresAt) <= Date.now();
    });
    if (oldest === undefined) return false;
    this.records.delete(oldest);
    this.notices.delete(oldest);
    return ids.delete(oldest);
  }

  override find(id: string): Promise<Pending | undefined> {
    return Promise.resolve(this.records.get(id));
  }

  override list({
    tenant,
    runId,
    conversation,
    pending = false,
    limit = 100,
    after,
  }: PendingQuery): Promise<readonly Pending[]> {
    const found = [...this.records.values()]
      .filter(
        ({ binding }) =>
          binding.tenant === tenant && (runId === undefined || binding.runId === runId),
      )
      .filter((record) => conversation === undefined || record.conversation === conversation)
      .filter(({ answer }) => !pending || !answer);
    const start = after === undefined ? 0 : found.findIndex(({ id }) => id === after) + 1;
    return Promise.resolve(found.slice(start, start + limit));
  }

  override claim(id: string, request: LeaseRequest): Promise<boolean> {
    const record = this.records.get(id);
    const held = this.claims.get(id);
    const isFree = !held || held.owner === request.owner || leftMs(held) === 0;
    if (!record || record.answer || !isFree) return Promise.resolve(false);
    this.claims.set(id, nextLease(held ?? {}, request));
    return Promise.resolve(true);
  }

  override answer(id: string, answer: PendingAnswer): Promise<Pending | undefined> {
    const record = this.records.get(id);
    if (!record || record.answer) return Promise.resolve(undefined);
    this.claims.delete(id);
    this.notices.delete(id);
    const answered = { ...record, answer };
    this.records.set(id, answered);
    this.answers$.next(answered);
    return Promise.resolve(answered);
  }

  override use(id: string): Promise<boolean> {
    const record = this.records.get(id);
    if (!record?.answer || !isUsable(record.answer) || record.usedAt !== undefined)
      return Promise.resolve(false);
    this.records.set(id, { ...record, usedAt: new Date().toISOString() });
    return Promise.resolve(true);
  }

  override due(request: LeaseRequest, most: number): Promise<readonly DueNotice[]> {
    const now = Date.now();
    const due = [...this.notices].filter(
      ([, notice]) => notice.dueAt <= now && !(notice.lease && leftMs(notice.lease) > 0),
    );
    const leased = due.toSorted(([, one], [, other]) => one.dueAt - other.dueAt).slice(0, most);
    return Promise.resolve(
      leased.flatMap(([id, notice]) => {
        const record = this.records.get(id);
        this.notices.set(id, { ...notice, lease: nextLease(notice.lease ?? {}, request) });
        return record ? [{ record, at: notice.at, attempts: notice.attempts }] : [];
      }),
    );
  }

  override reschedule(id: string, owner: string, next?: NextNotice): Promise<void> {
    if (this.notices.get(id)?.lease?.owner !== owner) return Promise.resolve();
    if (next)
      this.notices.set(id, {
        at: next.at,
        attempts: next.attempts,
        dueAt: Date.now() + next.dueInMs,
      });
    else this.notices.delete(id);
    return Promise.resolve();
  }

  override async answered(id: string, signal: AbortSignal): Promise<Pending> {
    signal.throwIfAborted();
    const known = this.records.get(id);
    if (known?.answer) return known;
    const aborted$ = fromEvent(signal, 'abort').pipe(
      map((): never => {
        throw signal.reason;
      }),
    );
    const answered$ = this.answers$.pipe(filter(({ id: answeredId }) => answeredId === id));
    return firstValueFrom(merge(answered$, aborted$).pipe(take(1)));
  }
}

const MOST_OF_AN_ACTOR = 1_000;
const MOST_OF_A_TENANT = 10_000;
const MOST_MESSAGES = 200;

/**
 * Keeps conversations in memory, with the last 200 messages of each. Beyond 1,000 of an actor that
 * actor's least recently used one is dropped. Beyond 10,000 of a tenant the actor with the most
 * loses one.
 */
export class MemoryConversationStore extends ConversationStore {
  /** The conversations by tenant, then by actor, in the order of their last use. */
  private readonly tenants = new Map<string, Map<string, OwnConversations>>();
  /** The leases of the runs that are under way. */
  private readonly turns = new Map<string, Lease>();
  private readonly inputs = new Map<string, ReadonlyMap<string, KeptInput>>();
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
    const actors = this.tenants.get(tenant) ?? new Map<string, OwnConversations>();
    const own = actors.get(actorId) ?? new Map<string, KeptConversation>();
    const parts = newest(
      withPart(own.get(conversationId)?.parts ?? [], {
        runId,
        messages,
        position: (this.last += 1),
      }),
    );
    own.delete(conversationId);
    own.set(conversationId, { parts, updatedAt: new Date().toISOString() });
    this.tenants.set(tenant, actors.set(actorId, own));
    if (own.size > MOST_OF_AN_ACTOR) forgetOldest(own);
    else if (sizeOf(actors) > MOST_OF_A_TENANT) forgetOldest(largestOf(actors));
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
    const kept = this.inputsOf(key);
    const takenBy = kept.get(input.id)?.takenBy;
    this.inputs.set(nameOf(key), kept.set(input.id, { input, takenBy, until: Date.now() + forMs }));
    return Promise.resolve(takenBy);
  }

  override left(key: ConversationKey, owner: string): Promise<readonly LeftInput[]> {
    const lease = this.turns.get(nameOf(key));
    if (lease?.owner !== owner || leftMs(lease) <= 0) return Promise.resolve([]);
    return Promise.resolve(
      [...this.inputsOf(key).values()].flatMap(({ input, takenBy }) =>
        takenBy === undefined ? input : [],
      ),
    );
  }

  override take(key: ConversationKey, id: string, owner: string): Promise<string | undefined> {
    const kept = this.inputsOf(key).get(id);
    return Promise.resolve(kept && (kept.takenBy ??= owner));
  }

  private inputsOf(key: ConversationKey): Map<string, KeptInput> {
    const kept = [...(this.inputs.get(nameOf(key)) ?? [])].filter(
      ([, one]) => one.until + (one.takenBy ? TAKEN_TOLD_MS : 0) > Date.now(),
    );
    if (kept.length === 0) this.inputs.delete(nameOf(key));
    return new Map(kept);
  }

  override list(
    { tenant, actorId }: ConversationOwner,
    { limit = 100, after }: ConversationListing = {},
  ): Promise<readonly ConversationSummary[]> {
    const all = [...(this.tenants.get(tenant)?.get(actorId) ?? [])].toReversed();
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
    const own = this.tenants.get(tenant)?.get(actorId);
    const kept = own?.get(conversationId);
    if (!own || !kept) return Promise.resolve();
    const isCut = ({ position, cutBy }: Part): boolean =>
      'from' in turns ? cutBy === undefined && position >= turns.from : cutBy === turns.cutBy;
    own.set(conversationId, {
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
    return Promise.resolve(this.tenants.get(tenant)?.get(actorId)?.delete(conversationId) ?? false);
  }

  private messagesOf({ tenant, actorId, conversationId }: ConversationKey): readonly Message[] {
    return messagesIn(this.partsOf({ tenant, actorId, conversationId }));
  }

  private partsOf({ tenant, actorId, conversationId }: ConversationKey): readonly Part[] {
    return this.tenants.get(tenant)?.get(actorId)?.get(conversationId)?.parts ?? [];
  }
}

interface KeptInput {
  readonly input: LeftInput;
  takenBy: string | undefined;
  readonly until: number;
}

interface KeptConversation {
  readonly parts: readonly Part[];
  readonly updatedAt: string;
}

/** The conversations of one actor by their ids, the least recently used first. */
type OwnConversations = Map<string, KeptConversation>;

function forgetOldest(conversations: OwnConversations): void {
  const [oldest] = conversations.keys();
  if (oldest !== undefined) conversations.delete(oldest);
}

function sizeOf(actors: ReadonlyMap<string, OwnConversations>): number {
  return [...actors.values()].reduce((sum, { size }) => sum + size, 0);
}

function largestOf(actors: ReadonlyMap<string, OwnConversations>): OwnConversations {
  return [...actors.values()].reduce((largest, own) => (own.size > largest.size ? own : largest));
}

/** The messages that one run added. */
interface Part {
  readonly runId: string | undefined;
  readonly messages: readonly Message[];
  readonly position: number;
  /** The run for which it was cut. */
  readonly cutBy?: string;
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
  let room = MOST_MESSAGES;
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

const MOST_ENTRIES = 100_000;

/**
 * Keeps the audit in memory, for tests and first steps. An audit never drops entries silently, so a
 * tenant's chain that is full, by default with 100,000 entries, accepts no more and the tenant's
 * calls are refused; other tenants are not affected.
 */
export class MemoryAuditStore extends AuditStore {
  private readonly chains = new Map<string, AuditEntry[]>();
  private readonly mostEntries: number;

  constructor({ mostEntries = MOST_ENTRIES }: { readonly mostEntries?: number } = {}) {
    super();
    this.mostEntries = mostEntries;
  }

  /**
   * Appends an entry at once, which is atomic.
   *
   * @throws Error for one entry too many
   */
  override append(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): void | Promise<void> {
    const chain = this.chains.get(tenant) ?? [];
    if (chain.length >= this.mostEntries)
      throw new Error(
        `The audit in memory holds ${chain.length} entries of one tenant and accepts no more. Bind a durable AuditStore.`,
      );
    chain.push(build(chain.at(-1)));
    this.chains.set(tenant, chain);
  }

  override head(tenant: string): Promise<AuditHead | undefined> {
    return Promise.resolve(this.chains.get(tenant)?.at(-1));
  }

  override read(
    tenant: string,
    { from, limit }: { readonly from: number; readonly limit: number },
  ): Promise<readonly AuditEntry[]> {
    const start = Math.max(from, 1) - 1;
    return Promise.resolve((this.chains.get(tenant) ?? []).slice(start, start + limit));
  }
}

const MOST_ACCOUNTS = 1_000;

/** A notice with the time of its next attempt, and the lease of who tells it. */
interface KeptNotice extends Pick<DueNotice, 'at' | 'attempts'> {
  readonly dueAt: number;
  readonly lease?: Lease;
}

interface KeptAccount extends SessionAccount {
  readonly expiresAt: number;
}

const NEW_ACCOUNT: SessionAccount = {
  isTainted: false,
  hasReadPrivate: false,
  refusals: 0,
  counts: {},
};

/**
 * Keeps the accounts of sessions in memory, for this process only: at most 1,000 of an actor at a
 * time, beyond which no further scope is taken.
 */
export class MemoryAccountStore extends AccountStore {
  /** The accounts by principal, then by scope, the least recently used first. */
  private readonly principals = new Map<string, Map<string, KeptAccount>>();
  /** Those that are kept for good, which would stand in the way of those that expire. */
  private readonly lasting = new Map<string, Map<string, KeptAccount>>();

  override add(
    { tenant, actorId, scope }: AccountKey,
    addition: AccountAddition,
    keptMs: number,
  ): Promise<SessionAccount> {
    const now = performance.now();
    const principal = JSON.stringify([tenant, actorId]);
    const principals = keptMs >= LASTING_MS ? this.lasting : this.principals;
    const own = principals.get(principal) ?? new Map<string, KeptAccount>();
    forgetExpired(own, now);
    const known = own.get(scope);
    if (!known && own.size >= MOST_ACCOUNTS)
      return Promise.reject(
        new Error(
          `One actor has ${MOST_ACCOUNTS} accounts of sessions in memory. Give their sessions fewer scopes, or bind a durable AccountStore.`,
        ),
      );
    const account = added(known && known.expiresAt > now ? known : NEW_ACCOUNT, addition);
    own.delete(scope);
    own.set(scope, { ...account, expiresAt: now + keptMs });
    principals.delete(principal);
    principals.set(principal, own);
    this.forgetUnused(now);
    return Promise.resolve(account);
  }

  /** Looks at the least recently used principals alone: those behind them were used later. */
  private forgetUnused(now: number): void {
    for (const [principal, own] of this.principals) {
      forgetExpired(own, now);
      if (own.size > 0) return;
      this.principals.delete(principal);
    }
  }
}

function forgetExpired(accounts: Map<string, KeptAccount>, now: number): void {
  for (const [scope, { expiresAt }] of accounts) {
    if (expiresAt > now) return;
    accounts.delete(scope);
  }
}

function added(
  { isTainted, hasReadPrivate, refusals, counts }: SessionAccount,
  addition: AccountAddition,
): SessionAccount {
  const totals = new Map(Object.entries(counts));
  for (const [name, amount] of Object.entries(addition.counts ?? {}))
    totals.set(name, (totals.get(name) ?? 0) + amount);
  return {
    isTainted: isTainted || addition.isTainted === true,
    hasReadPrivate: hasReadPrivate || addition.hasReadPrivate === true,
    refusals: addition.isRefused === undefined ? refusals : addition.isRefused ? refusals + 1 : 0,
    counts: Object.fromEntries(totals),
  };
}
