import { type Observable, Subject } from 'rxjs';
import type { AccountStore } from '../contracts/account.js';
import type { AuditStore } from '../contracts/audit.js';
import type { CallJournal, CallTransactions } from '../contracts/call-journal.js';
import type { ConversationStore } from '../contracts/conversation.js';
import type { DirectiveStore } from '../contracts/directive.js';
import type { TenantDirectory } from '../contracts/tenant-directory.js';
import type { Pending, PendingStore } from '../contracts/pending.js';
import type { PolicyStore } from '../contracts/policy-store.js';
import type { RunLog } from '../contracts/run-log.js';
import type { ToolLoopStores } from '../contracts/stores.js';
import type { UsageStore } from '../contracts/usage.js';
import { boundAccounts } from './bounded-accounts.js';
import { BoundedAudit } from './bounded-audit.js';
import { boundConversations } from './bounded-conversations.js';
import { boundDirectives } from './bounded-directives.js';
import { boundJournal } from './bounded-journal.js';
import { boundPending } from './bounded-pending.js';
import { boundPolicies } from './bounded-policies.js';
import { boundRuns } from './bounded-runs.js';
import { BoundedTenants } from './bounded-tenants.js';
import { BoundedTransactions } from './bounded-transactions.js';
import { boundUsage } from './bounded-usage.js';

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
    this.accounts = boundAccounts(stores.accounts);
    this.audit = new BoundedAudit(stores.audit);
    this.conversations = boundConversations(stores.conversations);
    this.directives = boundDirectives(stores.directives);
    this.journal = boundJournal(stores.journal);
    const answered = new Subject<Pending>();
    this.answered$ = answered.asObservable();
    this.pending = boundPending(stores.pending, (record) => answered.next(record));
    this.policies = boundPolicies(stores.policies);
    this.usage = boundUsage(stores.usage);
    this.runs = boundRuns(stores.runs);
    this.callsOfRuns = stores.runs.keepsCallsOf(stores.journal) ? this.journal : undefined;
    this.transactions = stores.transactions && new BoundedTransactions(stores.transactions);
    this.tenants = stores.tenants && new BoundedTenants(stores.tenants);
  }
}

/**
 * The adapter of every port. Only transactions and the directory of tenants may be absent: nothing
 * in memory stands for a database or for an application's tenants.
 */
export interface StorePorts extends Required<Omit<ToolLoopStores, 'transactions'>> {
  readonly transactions: CallTransactions | undefined;
  readonly tenants: TenantDirectory | undefined;
}
