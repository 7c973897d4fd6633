import { isDeepStrictEqual } from 'node:util';
import { Injectable, Optional } from '@nestjs/common';
import type { LoopEvent, Message } from '@toolloop/protocol';
import type { Observable } from 'rxjs';
import { type ApprovalAnswer, type ApprovalQuery, type ApprovalRecord, ApprovalStore } from '../contracts/approval.js';
import { type AuditEntry, type AuditHead, AuditStore } from '../contracts/audit.js';
import {
  type AddedDirective,
  type DirectiveChange,
  type DirectiveEvent,
  type DirectiveHold,
  type DirectiveIntent,
  type DirectiveQuery,
  type DirectiveRecord,
  type DirectiveReference,
  DirectiveStore,
  type DirectiveVersion,
  type LeasedDirective,
  type StopWork,
} from '../contracts/directive.js';
import type { Lease, LeaseRequest } from '../contracts/lease.js';
import { QuotaStore, type QuotaUse } from '../contracts/limits.js';
import {
  CallJournal,
  CallTransactions,
  type ConversationKey,
  type ConversationListing,
  type ConversationOwner,
  ConversationStore,
  type ConversationSummary,
  type EventPage,
  type JournalCall,
  type JournalClaim,
  type JournalEntry,
  type JournalHold,
  type JournalKey,
  type JournalOutcome,
  type JournalStart,
  type LeasedRun,
  type MessagePage,
  type NewRun,
  type RunEntry,
  type RunHold,
  RunLog,
  type RunQuery,
  type RunRecord,
  type RunWrite,
  ToolLoopStores,
} from '../contracts/stores.js';
import { withdrawal } from '../pending/approval.service.js';
import { askStore, asPart, outsideOfRuns, tellStore } from './store-calls.js';

/**
 * The stores of the application as everything here uses them: each call ends with its run, takes 8 s at most, and is repeated where it failed for a reason that may
 * pass. An adapter of each port says, for each of its methods, why repeating it does no harm.
 */
@Injectable()
export class BoundedStores {
  readonly approvals: ApprovalStore;
  readonly audit: AuditStore;
  readonly conversations: ConversationStore;
  readonly directives: DirectiveStore;
  readonly journal: CallJournal;
  readonly quotas: QuotaStore;
  readonly runs: RunLog;
  /** Absent where there is no database that tools could use as well. */
  readonly transactions: CallTransactions | undefined;

  constructor(
    approvals: ApprovalStore,
    audit: AuditStore,
    conversations: ConversationStore,
    directives: DirectiveStore,
    journal: CallJournal,
    quotas: QuotaStore,
    runs: RunLog,
    @Optional() stores?: ToolLoopStores,
  ) {
    this.approvals = new BoundedApprovals(approvals);
    this.audit = new BoundedAudit(audit);
    this.conversations = new BoundedConversations(conversations);
    this.directives = new BoundedDirectives(directives);
    this.journal = new BoundedJournal(journal);
    this.quotas = new BoundedQuotas(quotas);
    this.runs = new BoundedRuns(runs);
    this.transactions = stores?.transactions && new BoundedTransactions(stores.transactions);
  }
}

class BoundedApprovals extends ApprovalStore {
  constructor(private readonly store: ApprovalStore) {
    super();
  }

  /** The same record twice is kept once. One that is kept after its run has ended is withdrawn. */
  override add(record: ApprovalRecord): Promise<void> {
    return askStore(() => this.store.add(record), { late: () => this.answer(record.request.approvalId, withdrawal()) });
  }

  override find(approvalId: string): Promise<ApprovalRecord | undefined> {
    return askStore(() => this.store.find(approvalId));
  }

  override list(query: ApprovalQuery): Promise<readonly ApprovalRecord[]> {
    return askStore(() => this.store.list(query));
  }

  /** The same owner gets its lease again. */
  override claim(approvalId: string, request: LeaseRequest): Promise<boolean> {
    return askStore(() => this.store.claim(approvalId, request));
  }

  /** Stores an answer. After an attempt without a reply, an answer that is there and equals this one, its time included, counts as stored by that attempt. */
  override answer(approvalId: string, answer: ApprovalAnswer): Promise<ApprovalRecord | undefined> {
    return tellStore('The answer to an approval', async (attempt) => {
      const answered = await this.store.answer(approvalId, answer);
      if (answered || attempt === 1) return answered;
      const known = await this.store.find(approvalId);
      return known && isDeepStrictEqual(known.answer, answer) ? known : undefined;
    });
  }

  /** An approval is bound to one call, and the key of that call in the journal keeps it from being made twice: one that was used meanwhile was used by this call. */
  override use(approvalId: string): Promise<boolean> {
    return askStore(async (attempt) => {
      const isTaken = await this.store.use(approvalId);
      if (isTaken || attempt === 1) return isTaken;
      const known = await this.store.find(approvalId);
      return known?.isUsed === true && known.answer?.decision === 'approve';
    });
  }

  /** A person may take as long as the caller's signal lets them. */
  override answered(approvalId: string, signal: AbortSignal): Promise<ApprovalRecord> {
    return askStore(() => this.store.answered(approvalId, signal), { longestMs: Infinity });
  }
}

class BoundedAudit extends AuditStore {
  constructor(private readonly store: AuditStore) {
    super();
  }

  /** The hash of an entry says whether the one at its place is this one. */
  override append(tenant: string, build: (head: AuditHead | undefined) => AuditEntry): Promise<void> {
    let last: AuditEntry | undefined;
    return tellStore('An entry of the audit', async (attempt) => {
      if (attempt > 1 && last && (await this.isKept(tenant, last))) return;
      await this.store.append(tenant, (head) => (last = build(head)));
    });
  }

  override head(tenant: string): Promise<AuditHead | undefined> {
    return tellStore('The head of the audit', () => this.store.head(tenant));
  }

  override read(tenant: string, page: { readonly from: number; readonly limit: number }): Promise<readonly AuditEntry[]> {
    return tellStore('A page of the audit', () => this.store.read(tenant, page));
  }

  private async isKept(tenant: string, { sequence, hash }: AuditEntry): Promise<boolean> {
    const [entry] = await this.store.read(tenant, { from: sequence, limit: 1 });
    return entry?.hash === hash;
  }
}

class BoundedConversations extends ConversationStore {
  constructor(private readonly store: ConversationStore) {
    super();
  }

  override load(key: ConversationKey): Promise<readonly Message[]> {
    return askStore(() => this.store.load(key));
  }

  /** Appends messages; those that the same run appended before are replaced. Without a run's id one append cannot be told from another. */
  override append(key: ConversationKey, messages: readonly Message[], runId?: string): Promise<void> {
    if (runId === undefined) return askStore(() => this.store.append(key, messages), { isRepeatable: false });
    return tellStore('The conversation', () => this.store.append(key, messages, runId));
  }

  override list(owner: ConversationOwner, listing?: ConversationListing): Promise<readonly ConversationSummary[]> {
    return askStore(() => this.store.list(owner, listing));
  }

  override read(key: ConversationKey, page: MessagePage): Promise<readonly Message[]> {
    return askStore(() => this.store.read(key, page));
  }

  /** Deletes a conversation. One that an attempt without an answer deleted was there as well. */
  override async delete(key: ConversationKey): Promise<boolean> {
    return askStore(async (attempt) => (await this.store.delete(key)) || attempt > 1);
  }
}

class BoundedDirectives extends DirectiveStore {
  constructor(private readonly store: DirectiveStore) {
    super();
  }

  override get changes$(): Observable<DirectiveEvent> {
    return this.store.changes$;
  }

  /** The one that an attempt without an answer kept has the id. `first` is undone with an attempt that kept nothing. */
  override add(intent: DirectiveIntent, first?: () => Promise<void>): Promise<AddedDirective> {
    return tellStore('A directive', async (attempt) => {
      const known = attempt > 1 ? await this.store.find(intent) : undefined;
      return known ? { record: known, isNew: false } : this.store.add(intent, first && (() => asPart(first)));
    });
  }

  override find(reference: DirectiveReference): Promise<DirectiveRecord | undefined> {
    return askStore(() => this.store.find(reference));
  }

  override list(query: DirectiveQuery): Promise<readonly DirectiveRecord[]> {
    return askStore(() => this.store.list(query));
  }

  /** The same owner gets its lease again. One that comes after the caller has left expires. */
  override acquire(reference: DirectiveReference, request: LeaseRequest): Promise<LeasedDirective | undefined> {
    return askStore(() => this.store.acquire(reference, request));
  }

  override renew(hold: DirectiveHold, forMs: number): Promise<boolean> {
    return askStore(() => this.store.renew(hold, forMs));
  }

  /** Changes a directive from one epoch and state; only their holder can. */
  override change(from: DirectiveVersion, change: DirectiveChange): Promise<DirectiveRecord | undefined> {
    return tellStore('The state of a directive', async (attempt) => {
      const changed = await this.store.change(from, change);
      if (changed || attempt === 1) return changed;
      const known = await this.store.find(from);
      return known?.status === change.status && known.epoch === from.epoch ? known : undefined;
    });
  }

  override work(perform: (reference: DirectiveReference) => Promise<void>, concurrency: number): Promise<StopWork> {
    return this.store.work((reference) => outsideOfRuns(() => perform(reference)), concurrency);
  }
}

class BoundedJournal extends CallJournal {
  constructor(private readonly store: CallJournal) {
    super();
  }

  /** The same owner gets its lease again. One that comes after the run has ended is given back. */
  override acquire(start: JournalStart): Promise<JournalClaim> {
    const late = (claim: JournalClaim): unknown => (claim.status === 'acquired' ? this.release({ ...start, ...claim.lease }) : undefined);
    return askStore(() => this.store.acquire(start), { late });
  }

  override find(call: JournalCall): Promise<JournalEntry | undefined> {
    return askStore(() => this.store.find(call));
  }

  /** The same owner gets its lease again. */
  override steal(key: JournalKey, request: LeaseRequest): Promise<Lease | undefined> {
    return askStore(() => this.store.steal(key, request));
  }

  /** Does nothing once the call has ended. */
  override finish(hold: JournalHold, outcome: JournalOutcome): Promise<void> {
    return tellStore('The outcome of a call', () => this.store.finish(hold, outcome));
  }

  /** Does nothing for who does not hold the lease any more. */
  override release(hold: JournalHold): Promise<void> {
    return tellStore('The release of a key', () => this.store.release(hold));
  }
}

class BoundedQuotas extends QuotaStore {
  constructor(private readonly store: QuotaStore) {
    super();
  }

  /** A use that got no answer may be counted twice, which errs on the side of the quota. */
  override use(use: QuotaUse): Promise<number> {
    return use.amount > 0 ? tellStore('A use of a quota', () => this.store.use(use)) : askStore(() => this.store.use(use));
  }
}

/** A write is no part of the run that it is about: it is kept even where the run is interrupted. */
class BoundedRuns extends RunLog {
  constructor(private readonly log: RunLog) {
    super();
  }

  /** Takes as long as it takes; where it fails the application does not start. */
  override open(): Promise<void> {
    return askStore(() => this.log.open(), { isRepeatable: false, longestMs: Infinity });
  }

  /** The id of a waiting run is its own, so one that is there already was added by an attempt without an answer. A queued one is recognised by the caller. */
  override add(run: NewRun, status: 'queued' | 'waiting'): Promise<void> {
    const add = async (attempt: number): Promise<void> => {
      const isKnown = attempt > 1 && status === 'waiting' && (await this.log.find(run.runId)) !== undefined;
      if (!isKnown) await this.log.add(run, status);
    };
    return outsideOfRuns(() => askStore(add));
  }

  /** The same owner gets the lease of an attempt without an answer. */
  override begin(run: NewRun, request: LeaseRequest): Promise<Lease> {
    const begin = async (attempt: number): Promise<Lease> => {
      const known = attempt > 1 ? await this.log.acquire(run.runId, request) : undefined;
      return known?.lease ?? this.log.begin(run, request);
    };
    return outsideOfRuns(() => askStore(begin));
  }

  /** The same owner gets its lease again. One that comes after its run has ended is given back. */
  override acquire(runId: string, request: LeaseRequest, epoch?: number): Promise<LeasedRun | undefined> {
    const late = (run: LeasedRun | undefined): unknown => run && this.release({ runId, ...run.lease });
    return askStore(() => this.log.acquire(runId, request, epoch), { late });
  }

  /** The same write twice is kept once. One with an ending is refused once it is kept, so the run is looked at. */
  override append(hold: RunHold, write: RunWrite): Promise<void> {
    const append = async (attempt: number): Promise<void> => {
      if (attempt > 1 && write.ending && hasEnded(await this.log.find(hold.runId), write)) return;
      await this.log.append(hold, write);
    };
    return outsideOfRuns(() => askStore(append));
  }

  override renew(holds: readonly RunHold[], forMs: number): Promise<readonly Pick<RunRecord, 'runId' | 'cancelled'>[]> {
    return outsideOfRuns(() => askStore(() => this.log.renew(holds, forMs)));
  }

  override release(hold: RunHold): Promise<void> {
    return outsideOfRuns(() => askStore(() => this.log.release(hold)));
  }

  override requeueExpired(): Promise<number> {
    return outsideOfRuns(() => askStore(() => this.log.requeueExpired()));
  }

  override wake(runId: string): Promise<void> {
    return outsideOfRuns(() => askStore(() => this.log.wake(runId)));
  }

  override wakeAt(runId: string, at: Date): Promise<void> {
    return outsideOfRuns(() => askStore(() => this.log.wakeAt(runId, at)));
  }

  override cancel(runId: string, reason: string): Promise<void> {
    return outsideOfRuns(() => askStore(() => this.log.cancel(runId, reason)));
  }

  override find(runId: string): Promise<RunRecord | undefined> {
    return askStore(() => this.log.find(runId));
  }

  override list(query: RunQuery): Promise<readonly RunRecord[]> {
    return askStore(() => this.log.list(query));
  }

  override read(runId: string): Promise<readonly RunEntry[]> {
    return askStore(() => this.log.read(runId));
  }

  override events(runId: string, page: EventPage): Promise<readonly LoopEvent[]> {
    return askStore(() => this.log.events(runId, page));
  }

  override watch(runId: string, changed: () => void): Promise<() => Promise<void>> {
    return askStore(() => this.log.watch(runId, changed), { late: (end) => end() });
  }

  override work(advance: (runId: string) => Promise<void>, most: number): Promise<() => Promise<void>> {
    return this.log.work((runId) => outsideOfRuns(() => advance(runId)), most);
  }
}

/** Tells if an attempt without an answer kept the ending: its events are there. */
function hasEnded(run: RunRecord | undefined, { events }: RunWrite): boolean {
  return run !== undefined && run.status !== 'running' && run.lastSequence >= (events.at(-1)?.sequence ?? 0);
}

class BoundedTransactions extends CallTransactions {
  constructor(private readonly transactions: CallTransactions) {
    super();
  }

  /** A transaction without an answer was rolled back, or its mark is there. The tool's own limit holds for it. */
  override once<Result>(call: JournalKey, work: () => Promise<Result>): Promise<Result> {
    return askStore(() => this.transactions.once(call, () => asPart(work)), { longestMs: Infinity });
  }
}
