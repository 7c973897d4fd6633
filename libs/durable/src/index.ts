export { Database } from './database/database.js';
export type {
  ClientSession,
  DatabaseDriver,
  NamedStatement,
  NativeConnection,
  SqlAnswer,
  SqlSession,
  SqlStatement,
  SqlValue,
} from './database/database-driver.js';
export { DurableHealth, type Readiness } from './durable-health.js';
export { DurableModule, openDatabase, SqlStores } from './durable.module.js';
export {
  type DurableOptions,
  type FolderOptions,
  type MemoryOptions,
  type Retention,
  type ServerOptions,
  type RunOptions,
} from './durable-options.js';
export { SqlDirectiveStore } from './directives/sql-directive-store.js';
export { type Transaction } from './stores/sql-pending-store.js';
export { WakingPendingStore } from './stores/waking-pending-store.js';
export { SqlPolicyStore } from './stores/sql-policy-store.js';
export { SqlAuditStore } from './stores/sql-audit-store.js';
export { SqlAccountStore } from './stores/sql-account-store.js';
export { SqlConversationStore } from './stores/sql-conversation-store.js';
export { SqlUsageStore } from './stores/sql-usage-store.js';
export { SqlCallJournal } from './stores/sql-call-journal.js';
export { SqlCallTransactions } from './stores/sql-call-transactions.js';
export { UnstorableError } from './stores/storable.js';
export { JobQueue, type Job, type QueueOptions, type QueueWork } from './queue/job-queue.js';
export { RUN_OPTIONS, RunEngine } from './runs/run-engine.js';
export { SqlRunLog } from './runs/sql-run-log.js';
