import { afterAll, beforeAll, describe, it } from '@jest/globals';
import {
  accountStoreContract,
  pendingStoreContract,
  auditStoreContract,
  callJournalContract,
  conversationStoreContract,
  policyStoreContract,
  usageStoreContract,
  type StoreUnderTest,
} from '@toolloop/testing';
import type { SqlStores } from '@toolloop/durable';

/** All adapters against their contracts, over whatever database `make` opens. */
export function sqlContracts(name: string, make: () => Promise<StoreUnderTest<SqlStores>>): void {
  const runner = { describe, it, beforeAll, afterAll };
  const only =
    <Store>(pick: (stores: SqlStores) => Store) =>
    async (): Promise<StoreUnderTest<Store>> => {
      const { store, other = store, reopen, close } = await make();
      return {
        store: pick(store),
        other: pick(other),
        ...(reopen && { reopen: async () => pick(await reopen()) }),
        ...(close && { close }),
      };
    };
  accountStoreContract(
    name,
    only(({ accounts }) => accounts),
    runner,
  );
  pendingStoreContract(
    name,
    only(({ pending }) => pending),
    runner,
  );
  auditStoreContract(
    name,
    only(({ audit }) => audit),
    runner,
  );
  callJournalContract(
    name,
    only(({ journal }) => journal),
    runner,
  );
  conversationStoreContract(
    name,
    only(({ conversations }) => conversations),
    runner,
  );
  policyStoreContract(
    name,
    only(({ policies }) => policies),
    runner,
  );
  usageStoreContract(
    name,
    only(({ usage }) => usage),
    runner,
  );
}
