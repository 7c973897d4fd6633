import {
  type AccountAddition,
  type AccountKey,
  AccountStore,
  type SessionAccount,
} from '@toolloop/core/stores';
import type { Database } from '../database/database.js';
import { keyHash, storableKey, storedJson } from './storable.js';

/** Keeps the accounts of sessions in SQL, for all processes together. */
export class SqlAccountStore extends AccountStore {
  constructor(private readonly database: Database) {
    super();
  }

  /** @throws {UnstorableError} For a tenant that cannot be a key. */
  override async add(
    key: AccountKey,
    addition: AccountAddition,
    keptMs: number,
  ): Promise<SessionAccount> {
    const { tenant, actorId, scope } = key;
    const { isTainted = false, hasReadPrivate = false, isRefused = null, counts = {} } = addition;
    const [row] = await this.database.query<SessionAccount>(
      `insert into toolloop.session_accounts as accounts
         (tenant, key_hash, actor_hash, is_tainted, has_read_private, refusals, counts, expires_at)
       values ($1, $2, $3, $4, $5, case when $6::boolean then 1 else 0 end, $7, clock_timestamp() + $8::float8 * interval '1 millisecond')
       on conflict (tenant, key_hash) do update set
         is_tainted = excluded.is_tainted or (${CURRENT} and accounts.is_tainted),
         has_read_private = excluded.has_read_private or (${CURRENT} and accounts.has_read_private),
         refusals = case when ${CURRENT} and coalesce($6::boolean, true) then accounts.refusals + excluded.refusals else excluded.refusals end,
         counts = case when ${CURRENT} then ${SUMMED} else excluded.counts end,
         expires_at = excluded.expires_at
       returning is_tainted as "isTainted", has_read_private as "hasReadPrivate", refusals, counts`,
      [
        storableKey(tenant, 'tenant'),
        keyHash(actorId, scope),
        keyHash(actorId),
        isTainted,
        hasReadPrivate,
        isRefused,
        storedJson(counts, 'counts'),
        keptMs,
      ],
    );
    if (!row) throw new Error('The account of a session was not kept.');
    return row;
  }
}

/** The account as it is, or undefined where it has expired, by the database's clock. */
const CURRENT = 'accounts.expires_at > clock_timestamp()';

const SUMMED = `(
  select coalesce(json_object_agg(name, amount), '{}') from (
    select name, sum(amount::float8) as amount from (
      select key as name, value as amount from json_each_text(accounts.counts)
      union all select key, value from json_each_text(excluded.counts)
    ) as parts group by name
  ) as sums)`;
