/**
 * Tells again and again that a process is still at work, so that a short silence says that it is
 * gone. It never keeps the process alive.
 */
export class HeldLease {
  private readonly since = Date.now();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    /** `false` once the lease is another holder's. */
    private readonly renew: () => Promise<boolean>,
    private readonly terms: LeaseTerms,
  ) {
    this.sleep();
  }

  end(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private sleep(): void {
    this.timer = setTimeout(() => void this.beat(), this.terms.everyMs).unref();
  }

  /** A store that fails once may answer the next time, and until then the lease has not run out. */
  private async beat(): Promise<void> {
    if (Date.now() - this.since >= this.terms.mostMs) return;
    const { timer } = this;
    const isHeld = await this.renew().catch(() => true);
    if (isHeld && this.timer === timer) this.sleep();
  }
}

/** The times of a lease, in milliseconds. */
interface LeaseTerms {
  readonly everyMs: number;
  /**
   * The longest time to an end. A holder that has not ended by then has hung, and loses the lease.
   */
  readonly mostMs: number;
}
