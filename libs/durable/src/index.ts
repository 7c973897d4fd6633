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
  DEFAULT_RUN_OPTIONS,
  type RunOptions,
} from './durable-options.js';
export { SqlDirectiveStore } from './directives/sql-directive.store.js';
export { RetentionSweep } from './retention.js';
export { SqlApprovalStore, WakingApprovalStore, type Transaction } from './stores/sql-approval.store.js';
export { SqlAuditStore, SqlConversationStore, SqlQuotaStore, SqlSuspendedRunStore } from './stores/sql-stores.js';
export { SqlCallJournal, SqlCallTransactions } from './stores/sql-call-journal.js';
export { UnstorableError } from './stores/storable.js';
export { JobQueue, type Job, type QueueOptions } from './queue/job-queue.js';
export { MemoryRunStore } from './runs/memory-run.store.js';
export { RUN_OPTIONS, RunEngine } from './runs/run-engine.js';
export { RunService, type RunReader, type RunView } from './runs/run.service.js';
export { SqlRunStore } from './runs/sql-run.store.js';
export {
  RunLostError,
  RunStore,
  type EventPage,
  type HeldRun,
  type NewRun,
  type RunHold,
  type RunQuery,
  type RunRecord,
  type RunStatus,
  type RunWrite,
} from './runs/run-store.js';
