import { Injectable } from '@nestjs/common';
import { ToolLoopStores, type ApprovalStore } from '@toolloop/core';
import { Database } from './database/database.js';
import type { SqlDirectiveStore } from './directives/sql.directive.store.js';
import type { RunStore } from './runs/run-store.js';
import { WakingApprovalStore } from './runs/waking.approval.store.js';
import { SqlApprovalStore } from './stores/sql.approval.store.js';
import { SqlAuditStore } from './stores/sql.audit.store.js';
import { SqlCallJournal } from './stores/sql.call.journal.js';
import { SqlCallTransactions } from './stores/sql.call.transactions.js';
import { SqlConversationStore } from './stores/sql.conversation.store.js';
import { SqlQuotaStore } from './stores/sql.quota.store.js';
import { SqlSuspendedRunStore } from './stores/sql.suspended.run.store.js';

/** All adapters over one handle. */
@Injectable()
export class SqlStores extends ToolLoopStores {
  override readonly approvals: ApprovalStore;
  override readonly audit: SqlAuditStore;
  override readonly conversations: SqlConversationStore;
  override readonly directives?: SqlDirectiveStore;
  override readonly journal: SqlCallJournal;
  override readonly quotas: SqlQuotaStore;
  override readonly suspendedRuns: SqlSuspendedRunStore;
  override readonly transactions: SqlCallTransactions;

  /** Where there are durable runs, an answered approval has its run gone on with. Directives need a queue, which whoever gives them has. */
  constructor(database: Database, runs?: RunStore, directives?: SqlDirectiveStore) {
    super();
    const approvals = new SqlApprovalStore(database);
    this.approvals = runs ? new WakingApprovalStore(approvals, runs, (work) => database.transaction(work)) : approvals;
    this.audit = new SqlAuditStore(database);
    this.conversations = new SqlConversationStore(database);
    if (directives) this.directives = directives;
    this.journal = new SqlCallJournal(database);
    this.quotas = new SqlQuotaStore(database);
    this.suspendedRuns = new SqlSuspendedRunStore(database);
    this.transactions = new SqlCallTransactions(database);
  }
}
