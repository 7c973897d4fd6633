/** How a lease is kept. Times are milliseconds. */
interface LeaseTerms {
  readonly everyMs: number;
  /** Whoever has not ended by then has hung, and loses it. */
  readonly mostMs: number;
}

/** Tells again and again that somebody is still at work, so that a short silence says that they are gone. It never keeps the process alive. */
export class HeldLease {
  private readonly since = Date.now();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    /** False once the lease is somebody else's. */
    private readonly extend: () => Promise<boolean>,
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
    const isHeld = await this.extend().catch(() => true);
    if (isHeld && this.timer === timer) this.sleep();
  }
}
