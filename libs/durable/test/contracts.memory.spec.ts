import { afterAll, beforeAll, describe, it } from '@jest/globals';
import {
  MemoryAccountStore,
  MemoryApprovalStore,
  MemoryAuditStore,
  MemoryCallJournal,
  MemoryConversationStore,
  MemoryPolicyStore,
  MemoryUsageStore,
} from '@toolloop/core/stores';
import {
  accountStoreContract,
  approvalStoreContract,
  auditStoreContract,
  callJournalContract,
  conversationStoreContract,
  policyStoreContract,
  usageStoreContract,
} from '@toolloop/testing';

const runner = { describe, it, beforeAll, afterAll };
const made = <Store>(store: Store) => Promise.resolve({ store });

accountStoreContract('in memory', () => made(new MemoryAccountStore()), runner);
approvalStoreContract('in memory', () => made(new MemoryApprovalStore()), runner);
auditStoreContract('in memory', () => made(new MemoryAuditStore()), runner);
callJournalContract('in memory', () => made(new MemoryCallJournal()), runner);
conversationStoreContract('in memory', () => made(new MemoryConversationStore()), runner);
policyStoreContract('in memory', () => made(new MemoryPolicyStore()), runner);
usageStoreContract('in memory', () => made(new MemoryUsageStore()), runner);
