/**
 * The right of one holder to work on one thing for a while: on a call of the journal, a directive
 * or a run. It expires, so that the work of a process that died can be given to another; and it has
 * an epoch, so that a process that was only slow cannot write beside its successor.
 *
 * Times are those of the store's clock, and only the store compares them, since the clocks of
 * processes differ. An expired lease is still held until a successor takes it.
 */
export interface Lease {
  /**
   * An id that the holder makes up for one attempt, such as a UUID. Asking again with it, as after
   * a lost answer, gives the same lease.
   */
  readonly owner: string;
  /** The number of the holder, from 1. A successor has a higher one. */
  readonly epoch: number;
  /** ISO 8601, UTC. */
  readonly expiresAt: string;
}

/**
 * The proof of a lease. A store refuses what is written, renewed or released with the owner or the
 * epoch of another one.
 */
export type LeaseHold = Pick<Lease, 'owner' | 'epoch'>;

/** A request for a lease. */
export interface LeaseRequest {
  readonly owner: string;
  /** Milliseconds until it expires. */
  readonly forMs: number;
}

/**
 * Returns the lease that follows the last one. That of the same owner is the last one, renewed;
 * that of another owner has the next epoch.
 */
export function nextLease(
  last: Partial<LeaseHold>,
  { owner, forMs }: LeaseRequest,
  now = Date.now(),
): Lease {
  const { epoch = 0 } = last;
  return {
    owner,
    epoch: last.owner === owner ? epoch : epoch + 1,
    expiresAt: new Date(now + forMs).toISOString(),
  };
}

/** Returns `true` for the proof of this very lease, expired or not. */
export function isHeldBy(lease: Lease | undefined, { owner, epoch }: LeaseHold): boolean {
  return lease?.owner === owner && lease.epoch === epoch;
}

/** Returns the milliseconds until a lease expires; 0 for one that has expired. */
export function leftMs({ expiresAt }: Lease, now = Date.now()): number {
  return Math.max(0, Date.parse(expiresAt) - now);
}
