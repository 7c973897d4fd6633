import { isDeepStrictEqual } from 'node:util';
import type { Message } from '@toolloop/protocol';
import { Subject } from 'rxjs';
import type { Observable } from 'rxjs';
import { AccountStore } from '../contracts/account.js';
import type { AccountAddition, AccountKey, SessionAccount } from '../contracts/account.js';
import type { AuditStore } from '../contracts/audit.js';
import { CallJournal, CallTransactions } from '../contracts/call-journal.js';
import { ConversationStore } from '../contracts/conversation.js';
import type {
  ConversationKey,
  ConversationListing,
  ConversationOwner,
  ConversationSummary,
  CutTurns,
  KeptTurn,
  LeftInput,
  MessagePage,
} from '../contracts/conversation.js';
import type { DirectiveStore } from '../contracts/directive.js';
import { TenantDirectory } from '../contracts/identity.js';
import type { LeaseRequest } from '../contracts/lease.js';
import type { DueNotice, NextNotice } from '../contracts/notice.js';
import { PendingStore, isUsable } from '../contracts/pending.js';
import type { Pending, PendingAnswer, PendingQuery } from '../contracts/pending.js';
import { PolicyStore } from '../contracts/policy-store.js';
import type {
  PolicyPage,
  PolicyScope,
  PolicySign,
  PolicyState,
  PolicyStop,
  PolicyVersion,
} from '../contracts/policy-store.js';
import type { RunLog } from '../contracts/run-log.js';
import type { ToolLoopStores } from '../contracts/stores.js';
import { UsageStore } from '../contracts/usage.js';
import type { UsageBatch, UsageQuery, UsageRow, UsageWindow } from '../contracts/usage.js';
import { withdrawal } from '../plugins/inbox/withdrawal.js';
import { BoundedAudit } from './bounded-audit.js';
import { BoundedDirectives } from './bounded-directives.js';
import { BoundedJournal, BoundedTransactions } from './bounded-journal.js';
import { BoundedRuns } from './bounded-runs.js';
import { BoundedTenants } from './bounded-tenants.js';
import { askStore, outsideOfRuns, tellStore } from './store-calls.js';

/**
 * The adapter of every port. Only transactions and the directory of tenants may be absent: nothing
 * in memory stands for a database or for an application's tenants.
 */
export interface StorePorts extends Required<Omit<ToolLoopStores, 'transactions'>> {
  readonly transactions: CallTransactions | undefined;
  readonly tenants: TenantDirectory | undefined;
}

/**
 * The stores of the application as everything here uses them: each call ends with its run, takes 8
 * s at most, and is repeated where it failed for a reason that may pass. An adapter of each port
 * says, for each of its methods, why repeating it does no harm.
 */
export class BoundedStores implements StorePorts {
  readonly accounts: AccountStore;
  readonly audit: AuditStore;
  readonly conversations: ConversationStore;
  readonly directives: DirectiveStore;
  readonly journal: CallJournal;
  readonly pending: PendingStore;
  readonly policies: PolicyStore;
  readonly usage: UsageStore;
  readonly runs: RunLog;
  /** The journal, where the writes of runs may begin and finish its calls. */
  readonly callsOfRuns: CallJournal | undefined;
  /** Absent where there is no database that tools could use as well. */
  readonly transactions: CallTransactions | undefined;
  /** Absent where every name is the name of a tenant. */
  readonly tenants: TenantDirectory | undefined;
  /**
   * Emits each request that was answered or withdrawn through this process, once that is stored:
   * for pages that show what waits. It tells nothing of other processes.
   */
  readonly answered$: Observable<Pending>;

  constructor(stores: StorePorts) {
    this.accounts = new BoundedAccounts(stores.accounts);
    this.audit = new BoundedAudit(stores.audit);
    this.conversations = new BoundedConversations(stores.conversations);
    this.directives = new BoundedDirectives(stores.directives);
    this.journal = new BoundedJournal(stores.journal);
    const answered = new Subject<Pending>();
    this.answered$ = answered.asObservable();
    this.pending = new BoundedPending(stores.pending, (record) => answered.next(record));
    this.policies = new BoundedPolicies(stores.policies);
    this.usage = new BoundedUsage(stores.usage);
    this.runs = new BoundedRuns(stores.runs);
    this.callsOfRuns = stores.runs.keepsCallsOf(stores.journal) ? this.journal : undefined;
    this.transactions = stores.transactions && new BoundedTransactions(stores.transactions);
    this.tenants = stores.tenants && new BoundedTenants(stores.tenants);
  }
}

class BoundedAccounts extends AccountStore {
  constructor(private readonly store: AccountStore) {
    super();
  }

  /**
   * An addition that got no answer may be counted twice, which errs on the side of the limits. What
   * a session has used is told even where its call is interrupted.
   */
  override add(
    key: AccountKey,
    addition: AccountAddition,
    keptMs: number,
  ): Promise<SessionAccount> {
    const add = (): Promise<SessionAccount> => this.store.add(key, addition, keptMs);
    return Object.keys(addition).length > 0
      ? tellStore('An addition to an account', add)
      : askStore(add);
  }
}

class BoundedPending extends PendingStore {
  constructor(
    private readonly store: PendingStore,
    private readonly tell: (answered: Pending) => void,
  ) {
    super();
  }

  /** The same record twice is kept once. One that is kept after its run has ended is withdrawn. */
  override add(record: Pending): Promise<void> {
    return askStore(() => this.store.add(record), {
      late: () => this.answer(record.id, withdrawal()),
    });
  }

  override find(id: string): Promise<Pending | undefined> {
    return askStore(() => this.store.find(id));
  }

  override list(query: PendingQuery): Promise<readonly Pending[]> {
    return askStore(() => this.store.list(query));
  }

  /** The same owner gets its lease again. */
  override claim(id: string, request: LeaseRequest): Promise<boolean> {
    return askStore(() => this.store.claim(id, request));
  }

  /**
   * Stores an answer. After an attempt without a reply, an answer that is there and equals this
   * one, its time included, counts as stored by that attempt.
   */
  override async answer(id: string, answer: PendingAnswer): Promise<Pending | undefined> {
    const stored = await tellStore('The answer of a person', async (attempt) => {
      const answered = await this.store.answer(id, answer);
      if (answered || attempt === 1) return answered;
      const known = await this.store.find(id);
      return known && isDeepStrictEqual(known.answer, answer) ? known : undefined;
    });
    if (stored) this.tell(stored);
    return stored;
  }

  /**
   * An answer is bound to one call, and the key of that call in the journal keeps it from being
   * made twice: one that was used meanwhile was used by this call.
   */
  override use(id: string): Promise<boolean> {
    return askStore(async (attempt) => {
      const isTaken = await this.store.use(id);
      if (isTaken || attempt === 1) return isTaken;
      const known = await this.store.find(id);
      return known?.usedAt !== undefined && known.answer !== undefined && isUsable(known.answer);
    });
  }

  /**
   * The same owner gets nothing again: what an attempt without an answer leased is leased anew
   * later.
   */
  override due(request: LeaseRequest, most: number): Promise<readonly DueNotice[]> {
    return outsideOfRuns(() => askStore(() => this.store.due(request, most)));
  }

  /** Does nothing for who does not hold the lease any more. */
  override reschedule(id: string, owner: string, next?: NextNotice): Promise<void> {
    return outsideOfRuns(() => askStore(() => this.store.reschedule(id, owner, next)));
  }

  /** A person may take as long as the caller's signal lets them. */
  override answered(id: string, signal: AbortSignal): Promise<Pending> {
    return askStore(() => this.store.answered(id, signal), { longestMs: Infinity });
  }
}

class BoundedConversations extends ConversationStore {
  constructor(private readonly store: ConversationStore) {
    super();
  }

  override load(key: ConversationKey): Promise<readonly Message[]> {
    return askStore(() => this.store.load(key));
  }

  /**
   * Appends messages; those that the same run appended before are replaced. Without a run's id one
   * append cannot be told from another.
   */
  override append(
    key: ConversationKey,
    messages: readonly Message[],
    runId?: string,
  ): Promise<void> {
    if (runId === undefined)
      return askStore(() => this.store.append(key, messages), { isRepeatable: false });
    return tellStore('The conversation', () => this.store.append(key, messages, runId));
  }

  override list(
    owner: ConversationOwner,
    listing?: ConversationListing,
  ): Promise<readonly ConversationSummary[]> {
    return askStore(() => this.store.list(owner, listing));
  }

  override read(key: ConversationKey, page: MessagePage): Promise<readonly Message[]> {
    return askStore(() => this.store.read(key, page));
  }

  /** The same owner gets its lease again. One that comes after its run has ended is given back. */
  override claim(key: ConversationKey, request: LeaseRequest): Promise<boolean> {
    const late = (isOurs: boolean): unknown =>
      isOurs && this.store.claim(key, { ...request, forMs: 0 });
    return askStore(() => this.store.claim(key, request), { late });
  }

  /** Leaves words. The same ones are left once. */
  override leave(
    key: ConversationKey,
    input: LeftInput,
    forMs: number,
  ): Promise<string | undefined> {
    return askStore(() => this.store.leave(key, input, forMs));
  }

  override left(key: ConversationKey, owner: string): Promise<readonly LeftInput[]> {
    return outsideOfRuns(() => askStore(() => this.store.left(key, owner)));
  }

  /** The same run takes them again. A run that ends takes its words back. */
  override take(key: ConversationKey, id: string, owner: string): Promise<string | undefined> {
    return outsideOfRuns(() => askStore(() => this.store.take(key, id, owner)));
  }

  override turn(key: ConversationKey, id: string): Promise<KeptTurn | undefined> {
    return askStore(() => this.store.turn(key, id));
  }

  /** Cuts turns. The same ones are cut once. */
  override cut(key: ConversationKey, turns: CutTurns, runId: string): Promise<void> {
    return askStore(() => this.store.cut(key, turns, runId));
  }

  override cutBy(key: ConversationKey, runId: string): Promise<readonly KeptTurn[]> {
    return askStore(() => this.store.cutBy(key, runId));
  }

  /** Deletes a conversation. One that an attempt without an answer deleted was there as well. */
  override async delete(key: ConversationKey): Promise<boolean> {
    return askStore(async (attempt) => (await this.store.delete(key)) || attempt > 1);
  }
}

/** Bounds the store of policies, which is no part of the run in which it happens to be read. */
class BoundedPolicies extends PolicyStore {
  constructor(private readonly store: PolicyStore) {
    super();
  }

  /**
   * A version that is there, and equals this one with its author and its time, was added by an
   * attempt without an answer.
   */
  override add(version: PolicyVersion): Promise<boolean> {
    return askStore(async (attempt) => {
      const isAdded = await this.store.add(version);
      if (isAdded || attempt === 1) return isAdded;
      return isDeepStrictEqual(await this.store.find(version, version.number), version);
    });
  }

  override find(scope: PolicyScope, number: number): Promise<PolicyVersion | undefined> {
    return askStore(() => this.store.find(scope, number));
  }

  override list(page: PolicyPage): Promise<readonly PolicyVersion[]> {
    return askStore(() => this.store.list(page));
  }

  /** The same stop twice is one. */
  override stop(stop: PolicyStop): Promise<void> {
    return askStore(() => this.store.stop(stop));
  }

  /** A stop that is gone was released by an attempt without an answer. */
  override release(stopId: string): Promise<boolean> {
    return askStore(async (attempt) => (await this.store.release(stopId)) || attempt > 1);
  }

  override read(since: number): Promise<PolicyState> {
    return outsideOfRuns(() => askStore(() => this.store.read(since)));
  }

  override watch(told: (sign: PolicySign) => void): Promise<() => Promise<void>> {
    return outsideOfRuns(() => askStore(() => this.store.watch(told), { late: (end) => end() }));
  }
}

class BoundedUsage extends UsageStore {
  constructor(private readonly store: UsageStore) {
    super();
  }

  /** A batch counts once, so it may be sent again. */
  override add(batch: UsageBatch): Promise<readonly number[]> {
    return tellStore('What was used', () => this.store.add(batch));
  }

  override totals(tenant: string, windows: readonly UsageWindow[]): Promise<readonly number[]> {
    return askStore(() => this.store.totals(tenant, windows));
  }

  override report(query: UsageQuery): Promise<readonly UsageRow[]> {
    return askStore(() => this.store.report(query));
  }
}
