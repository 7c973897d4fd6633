import { QuotaStore, type QuotaUse } from '@toolloop/core';
import type { Database } from '../database/database.js';
import { storableKey } from './storable.js';

/** The database's clock, so that processes whose own differ count the same window. */
const WINDOW = 'floor(extract(epoch from clock_timestamp()) * 1000 / $3::bigint)::bigint';

/** Counts in SQL what tenants use, for all processes together. */
export class SqlQuotaStore extends QuotaStore {
  constructor(private readonly database: Database) {
    super();
  }

  override async use({ tenant, quantity, windowMs, amount }: QuotaUse): Promise<number> {
    const counter = [storableKey(tenant, 'tenant'), quantity, windowMs];
    const [row] = amount === 0 ? await this.read(counter) : await this.add([...counter, amount]);
    return row?.used ?? 0;
  }

  private add(values: readonly (string | number)[]): Promise<readonly Counter[]> {
    return this.database.query<Counter>(
      `insert into toolloop.quotas as quotas (tenant, quantity, window_ms, "window", used) values ($1, $2, $3, ${WINDOW}, $4)
       on conflict (tenant, quantity, window_ms, "window") do update set used = quotas.used + excluded.used returning used`,
      values,
    );
  }

  private read(values: readonly (string | number)[]): Promise<readonly Counter[]> {
    return this.database.query<Counter>(
      `select used from toolloop.quotas where tenant = $1 and quantity = $2 and window_ms = $3 and "window" = ${WINDOW}`,
      values,
    );
  }
}

interface Counter {
  readonly used: number;
}
