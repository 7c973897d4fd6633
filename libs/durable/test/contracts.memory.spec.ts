import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { MemoryApprovalStore, MemoryAuditStore, MemoryCallJournal, MemoryConversationStore, MemoryQuotaStore } from '@toolloop/core/stores';
import {
  approvalStoreContract,
  auditStoreContract,
  callJournalContract,
  conversationStoreContract,
  quotaStoreContract,
} from '@toolloop/testing';

const runner = { describe, it, beforeAll, afterAll };
const made = <Store>(store: Store) => Promise.resolve({ store });

approvalStoreContract('in memory', () => made(new MemoryApprovalStore()), runner);
auditStoreContract('in memory', () => made(new MemoryAuditStore()), runner);
callJournalContract('in memory', () => made(new MemoryCallJournal()), runner);
conversationStoreContract('in memory', () => made(new MemoryConversationStore()), runner);
quotaStoreContract('in memory', () => made(new MemoryQuotaStore()), runner);
