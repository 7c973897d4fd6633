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
export { DurableHealth, type Readiness } from './durable.health.js';
export { DurableModule } from './durable.module.js';
export type { DurableOptions, FolderOptions, MemoryOptions, Retention, ServerOptions } from './durable.options.js';
export { SqlDirectiveStore } from './directives/sql.directive.store.js';
export { openDatabase } from './open-database.js';
export { RetentionSweep } from './retention.js';
export { SqlStores } from './sql.stores.js';
export { SqlApprovalStore } from './stores/sql.approval.store.js';
export { SqlAuditStore } from './stores/sql.audit.store.js';
export { SqlCallJournal } from './stores/sql.call.journal.js';
export { SqlCallTransactions } from './stores/sql.call.transactions.js';
export { SqlConversationStore } from './stores/sql.conversation.store.js';
export { SqlQuotaStore } from './stores/sql.quota.store.js';
export { SqlSuspendedRunStore } from './stores/sql.suspended.run.store.js';
export { UnstorableError } from './stores/storable.js';
export { JobQueue, type Job, type QueueOptions } from './queue/job.queue.js';
export { MemoryRunStore } from './runs/memory.run.store.js';
export { DEFAULT_RUN_OPTIONS, type RunOptions } from './runs/run.options.js';
export { RUN_OPTIONS, RunEngine } from './runs/run.engine.js';
export { RunService, type RunReader, type RunView } from './runs/run.service.js';
export { SqlRunStore } from './runs/sql.run.store.js';
export { WakingApprovalStore, type Transaction } from './runs/waking.approval.store.js';
export { RunLostError, RunStore } from './runs/run-store.js';
export type { EventPage, HeldRun, NewRun, RunHold, RunQuery, RunRecord, RunStatus, RunWrite } from './runs/run-store.js';
