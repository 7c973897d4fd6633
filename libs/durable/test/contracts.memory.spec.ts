import { afterAll, beforeAll, describe, it } from '@jest/globals';
import {
  MemoryAccountStore,
  MemoryPendingStore,
  MemoryAuditStore,
  MemoryCallJournal,
  MemoryConversationStore,
  MemoryPolicyStore,
  MemoryUsageStore,
} from '@toolloop/core/stores';
import {
  accountStoreContract,
  pendingStoreContract,
  auditStoreContract,
  callJournalContract,
  conversationStoreContract,
  policyStoreContract,
  usageStoreContract,
} from '@toolloop/testing';

const runner = { describe, it, beforeAll, afterAll };
const made = <Store>(store: Store) => Promise.resolve({ store });

accountStoreContract('in memory', () => made(new MemoryAccountStore()), runner);
pendingStoreContract('in memory', () => made(new MemoryPendingStore()), runner);
auditStoreContract('in memory', () => made(new MemoryAuditStore()), runner);
callJournalContract('in memory', () => made(new MemoryCallJournal()), runner);
conversationStoreContract('in memory', () => made(new MemoryConversationStore()), runner);
policyStoreContract('in memory', () => made(new MemoryPolicyStore()), runner);
usageStoreContract('in memory', () => made(new MemoryUsageStore()), runner);
