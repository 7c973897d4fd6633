import type { Lease } from '@toolloop/core/stores';

/*
 * The SQL of a `Lease`: the columns `owner text`, `epoch int` and `expires_at timestamptz(3)` of
 * the thing that is leased. Each function takes the parameters of its statement, such as `$3`, and
 * only the database's clock counts.
 */

/** The columns of a lease, for `returning` and `select`. */
export const LEASE = 'owner, epoch, expires_at';

/**
 * Returns a moment, in whole milliseconds. `now()` would be the beginning of the transaction, which
 * may be long ago.
 */
export function inMs(ms: string): string {
  return `date_trunc('milliseconds', clock_timestamp() + ${ms}::float8 * interval '1 millisecond')`;
}

/**
 * Sets the columns to the next lease: of the same owner the same epoch, of another one the next.
 */
export function leaseTo(owner: string, forMs: string): string {
  return `owner = ${owner}, epoch = case when owner = ${owner} then epoch else epoch + 1 end, expires_at = ${inMs(forMs)}`;
}

/** Holds for the rows whose lease this is, expired or not. */
export function heldBy(owner: string, epoch: string): string {
  return `owner = ${owner} and epoch = ${epoch}`;
}

/** The milliseconds until the lease expires, 0 for one that has expired. */
export const LEFT_MS = `greatest(0, extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as left_ms`;

/** A row with the columns of a lease. */
export interface LeaseRow {
  readonly owner: string;
  readonly epoch: number;
  readonly expires_at: Date;
}

/** Reads the lease of a row. */
export function fromLeaseRow({ owner, epoch, expires_at: expiresAt }: LeaseRow): Lease {
  return { owner, epoch, expiresAt: expiresAt.toISOString() };
}
