export { PendingStore } from '../contracts/pending.js';
export type {
  ApprovalAmendment,
  Pending,
  PendingAnswer,
  PendingApproval,
  PendingBinding,
  PendingKind,
  PendingOf,
  PendingQuery,
} from '../contracts/pending.js';
export type { DueNotice, NextNotice } from '../contracts/notice.js';
export { AuditStore } from '../contracts/audit.js';
export type { AuditEntry, AuditHead } from '../contracts/audit.js';
export type { OwedEntry } from '../contracts/owed-entry.js';
export { acquirableAt, DirectiveStore, versionOf } from '../contracts/directive.js';
export type {
  AddedDirective,
  DirectiveApproval,
  DirectiveAuthority,
  DirectiveCall,
  DirectiveChange,
  DirectiveHold,
  DirectiveIntent,
  DirectiveQuery,
  DirectiveRecord,
  DirectiveReference,
  DirectiveState,
  DirectiveTask,
  DirectiveVersion,
  LeasedDirective,
  StopWork,
} from '../contracts/directive.js';
export { isHeldBy, leftMs, nextLease } from '../contracts/lease.js';
export type { Lease, LeaseHold, LeaseRequest } from '../contracts/lease.js';
export {
  KEPT_POLICY_VERSIONS,
  POLICY_POLL_MS,
  POLICY_TRUST_MS,
  PolicyStore,
} from '../contracts/policy-store.js';
export type {
  PolicyPage,
  PolicyScope,
  PolicySign,
  PolicyState,
  PolicyStop,
  PolicyVersion,
} from '../contracts/policy-store.js';
export type { Quota, QuotaQuantity } from '../contracts/quota.js';
export { amountOf, usageSortKey, UsageStore } from '../contracts/usage.js';
export type {
  UsageAmounts,
  UsageBatch,
  UsageDimension,
  UsageIncrement,
  UsageKey,
  UsageQuery,
  UsageRow,
  UsageWindow,
} from '../contracts/usage.js';
export { AccountStore } from '../contracts/account.js';
export type { AccountAddition, AccountKey, SessionAccount } from '../contracts/account.js';
export { CallJournal, CallTransactions } from '../contracts/call-journal.js';
export { RunLog, RunLostError } from '../contracts/run-log.js';
export { StoreRefusalError } from '../contracts/store-refusal.js';
export { ToolLoopStores } from '../contracts/stores.js';
export { ConversationStore } from '../contracts/conversation.js';
export type {
  CallsOfWrite,
  EventPage,
  FinishedCall,
  LeasedRun,
  NewRun,
  OwedPage,
  PutOff,
  RunBeginning,
  RunHold,
  RunQuery,
  RunRecord,
  RunStatus,
  RunWrite,
} from '../contracts/run-log.js';
export type {
  JournalCall,
  JournalClaim,
  JournalEntry,
  JournalHold,
  JournalKey,
  JournalOutcome,
  JournalStart,
} from '../contracts/call-journal.js';
export type {
  ConversationCut,
  ConversationKey,
  ConversationListing,
  ConversationOwner,
  ConversationSummary,
  CutTurns,
  KeptTurn,
  LeftInput,
  MessagePage,
} from '../contracts/conversation.js';
export { MemoryCallJournal } from './memory-call-journal.js';
export { MemoryDirectiveStore } from './memory-directive-store.js';
export { MemoryPolicyStore } from './memory-policy-store.js';
export { MemoryAccountStore } from './memory-account-store.js';
export { MemoryPendingStore } from './memory-pending-store.js';
export { MemoryAuditStore } from './memory-audit-store.js';
export { MemoryConversationStore } from './memory-conversation-store.js';
export { MemoryRunLog } from './memory-run-log.js';
export { MemoryUsageStore } from './memory-usage-store.js';
