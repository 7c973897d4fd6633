export { ApprovalStore } from '../contracts/approval.js';
export type { ApprovalAmendment, ApprovalAnswer, ApprovalBinding, ApprovalQuery, ApprovalRecord } from '../contracts/approval.js';
export { AuditStore } from '../contracts/audit.js';
export type { AuditEntry, AuditHead } from '../contracts/audit.js';
export { DirectiveStore } from '../contracts/directive.js';
export type {
  AddedDirective,
  DirectiveApproval,
  DirectiveAuthority,
  DirectiveCall,
  DirectiveChange,
  DirectiveIntent,
  DirectiveQuery,
  DirectiveRecord,
  DirectiveReference,
  DirectiveState,
  DirectiveTask,
  DirectiveVersion,
  StopWork,
} from '../contracts/directive.js';
export { QuotaStore } from '../contracts/limits.js';
export type { Quota, QuotaQuantity, QuotaUse } from '../contracts/limits.js';
export { CallJournal, CallTransactions, ConversationStore, SuspendedRunStore, ToolLoopStores } from '../contracts/stores.js';
export type {
  ConversationKey,
  ConversationListing,
  ConversationOwner,
  ConversationSummary,
  JournalCall,
  JournalClaim,
  JournalEntry,
  JournalHold,
  JournalKey,
  JournalOutcome,
  JournalStart,
  MessagePage,
  SuspendedRun,
} from '../contracts/stores.js';
export { MemoryApprovalStore } from './memory-approval.store.js';
export { MemoryCallJournal } from './memory-call.journal.js';
export { MemoryDirectiveStore } from './memory-directive.store.js';
export { MemoryAuditStore, MemoryConversationStore, MemoryQuotaStore, MemorySuspendedRunStore } from './memory-stores.js';
