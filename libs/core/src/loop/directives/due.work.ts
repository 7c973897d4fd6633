import type { Logger } from '@nestjs/common';
import type { DirectiveRecord, DirectiveReference } from '../../protocol/directive.js';

const LONGEST_SLEEP_MS = 60_000;
const AGAIN_MS = 1_000;

/** How a worker works. */
interface WorkTerms {
  readonly concurrency: number;
  readonly logger: Logger;
}

/** A directive that is not looked at again before a time, unless it changes. */
interface PutOff {
  readonly record: DirectiveRecord;
  readonly until: number;
}

/** The worker of one process: sleeps until the next directive is due, and never keeps the process alive. */
export class DueWork {
  private readonly inHand = new Map<string, Promise<void>>();
  private readonly putOff = new Map<string, PutOff>();
  private timer: NodeJS.Timeout | undefined;
  private wakesAt = Infinity;
  private hasStopped = false;

  constructor(
    /** Those that have a time, which change as directives do. */
    private readonly known: ReadonlyMap<string, DirectiveRecord>,
    private readonly perform: (reference: DirectiveReference) => Promise<void>,
    private readonly terms: WorkTerms,
  ) {}

  /** Takes what is due as far as there is room, and comes again when something else is. */
  look(): void {
    this.wakeAt(0);
  }

  async stop(): Promise<void> {
    this.hasStopped = true;
    clearTimeout(this.timer);
    await Promise.all(this.inHand.values());
  }

  private takeDue(): void {
    const now = Date.now();
    let next = Infinity;
    for (const [key, record] of this.known) {
      if (this.inHand.size >= this.terms.concurrency) return; // whoever is ready looks again
      if (this.inHand.has(key)) continue;
      const time = this.timeOf(key, record);
      if (time <= now) this.begin(key, record);
      else next = Math.min(next, time);
    }
    this.wakeAt(next);
  }

  /** The earliest of all times that were said. */
  private wakeAt(time: number): void {
    if (this.hasStopped || time >= this.wakesAt) return;
    clearTimeout(this.timer);
    this.wakesAt = time;
    const wake = (): void => {
      this.wakesAt = Infinity;
      this.takeDue();
    };
    this.timer = setTimeout(wake, Math.min(Math.max(0, time - Date.now()), LONGEST_SLEEP_MS)).unref();
  }

  /** Whoever leaves a directive as it was would leave it so again at once. */
  private begin(key: string, record: DirectiveRecord): void {
    const { tenant, directiveId } = record.intent;
    const performing = this.perform({ tenant, directiveId })
      .catch((error: unknown) => this.terms.logger.error(`The directive ${directiveId} could not be processed; it is tried again.`, error))
      .finally(() => {
        this.inHand.delete(key);
        if (this.known.get(key) === record) this.putOff.set(key, { record, until: Date.now() + AGAIN_MS });
        else this.putOff.delete(key);
        this.look();
      });
    this.inHand.set(key, performing);
  }

  private timeOf(key: string, record: DirectiveRecord): number {
    const putOff = this.putOff.get(key);
    const until = putOff?.record === record ? putOff.until : 0;
    return Math.max(record.dueAt === undefined ? Infinity : Date.parse(record.dueAt), until);
  }
}
