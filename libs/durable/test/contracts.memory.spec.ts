import { afterAll, beforeAll, describe, it } from '@jest/globals';
import {
  MemoryAccountStore,
  MemoryApprovalStore,
  MemoryAuditStore,
  MemoryCallJournal,
  MemoryConversationStore,
  MemoryPolicyStore,
  MemoryQuotaStore,
} from '@toolloop/core/stores';
import {
  accountStoreContract,
  approvalStoreContract,
  auditStoreContract,
  callJournalContract,
  conversationStoreContract,
  policyStoreContract,
  quotaStoreContract,
} from '@toolloop/testing';

const runner = { describe, it, beforeAll, afterAll };
const made = <Store>(store: Store) => Promise.resolve({ store });

accountStoreContract('in memory', () => made(new MemoryAccountStore()), runner);
approvalStoreContract('in memory', () => made(new MemoryApprovalStore()), runner);
auditStoreContract('in memory', () => made(new MemoryAuditStore()), runner);
callJournalContract('in memory', () => made(new MemoryCallJournal()), runner);
conversationStoreContract('in memory', () => made(new MemoryConversationStore()), runner);
policyStoreContract('in memory', () => made(new MemoryPolicyStore()), runner);
quotaStoreContract('in memory', () => made(new MemoryQuotaStore()), runner);
