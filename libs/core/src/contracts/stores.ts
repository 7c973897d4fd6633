import type { AccountStore } from './account.js';
import type { AuditStore } from './audit.js';
import { CallJournal, CallTransactions } from './call-journal.js';
import type { ConversationStore } from './conversation.js';
import type { DirectiveStore } from './directive.js';
import type { PendingStore } from './pending.js';
import type { PolicyStore } from './policy-store.js';
import { RunLog } from './run-log.js';
import type { UsageStore } from './usage.js';

/**
 * Adapters of the ports that keep something, given by a library with a database. A global module
 * that exports a provider of this class replaces those in memory; `forRoot({ providers })` of the
 * application replaces both. What is absent stays in memory.
 *
 * @example
 * { provide: ToolLoopStores, useClass: RedisStores }
 */
export abstract class ToolLoopStores {
  readonly accounts?: AccountStore;
  abstract readonly audit?: AuditStore;
  abstract readonly conversations?: ConversationStore;
  readonly directives?: DirectiveStore;
  abstract readonly journal?: CallJournal;
  abstract readonly pending?: PendingStore;
  readonly policies?: PolicyStore;
  abstract readonly runs?: RunLog;
  readonly usage?: UsageStore;
  /** Absent where there is no database that tools could use as well. */
  abstract readonly transactions?: CallTransactions;
}
