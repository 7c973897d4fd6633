import type { AccountStore } from '../contracts/account.js';
import { boundStore } from './bounded-store.js';
import { askStore, tellStore } from './store-calls.js';

export const boundAccounts = (store: AccountStore): AccountStore =>
  boundStore(store, {
    /**
     * An addition that got no answer may be counted twice, which errs on the side of the limits.
     * The use of a session is told even if its call is interrupted.
     */
    add(key, addition, keptMs) {
      const add = () => store.add(key, addition, keptMs);
      return Object.keys(addition).length > 0
        ? tellStore('An addition to an account', add)
        : askStore(add);
    },
  });
