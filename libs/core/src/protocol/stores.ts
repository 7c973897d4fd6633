import type { ApprovalStore } from './approval.js';
import type { AuditStore } from './audit.js';
import type { CallJournal } from './call-journal.js';
import type { CallTransactions } from './call-transactions.js';
import type { ConversationStore } from './conversation-store.js';
import type { DirectiveStore } from './directive.js';
import type { QuotaStore } from './quota.js';
import type { SuspendedRunStore } from './suspended-run.js';

/**
 * Adapters of the ports that keep something, given by a library with a database. A global module that exports a provider of this class replaces those in
 * memory; `forRoot({ providers })` of the application replaces both. What is absent stays in memory.
 */
export abstract class ToolLoopStores {
  abstract readonly approvals?: ApprovalStore;
  abstract readonly audit?: AuditStore;
  abstract readonly conversations?: ConversationStore;
  readonly directives?: DirectiveStore;
  abstract readonly journal?: CallJournal;
  abstract readonly quotas?: QuotaStore;
  abstract readonly suspendedRuns?: SuspendedRunStore;
  /** Absent where there is no database that tools could use as well. */
  abstract readonly transactions?: CallTransactions;
}
