import {
  acquirableAt,
  type DirectiveRecord,
  type DirectiveReference,
} from '../contracts/directive.js';
import { Logger } from '../findings/logger.js';

/**
 * The worker of one process. It sleeps until the next directive is due, and never keeps the process
 * alive.
 */
export class DueWork {
  private readonly inHand = new Map<string, Promise<void>>();
  private readonly putOff = new Map<string, PutOff>();
  private timer: NodeJS.Timeout | undefined;
  private wakesAt = Infinity;
  private hasStopped = false;

  constructor(
    /** The directives with a due time, as they change. */
    private readonly known: ReadonlyMap<string, DirectiveRecord>,
    private readonly perform: (reference: DirectiveReference) => Promise<void>,
    private readonly terms: WorkTerms,
  ) {}

  /** Performs due directives up to the concurrency, and wakes again when the next one is due. */
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
      // each directive that ends looks again
      if (this.inHand.size >= this.terms.concurrency) return;
      if (this.inHand.has(key)) continue;
      const time = this.timeOf(key, record);
      if (time <= now) this.begin(key, record);
      else next = Math.min(next, time);
    }
    this.wakeAt(next);
  }

  /** Wakes the worker at a time, if it is the earliest. */
  private wakeAt(time: number): void {
    if (this.hasStopped || time >= this.wakesAt) return;
    clearTimeout(this.timer);
    this.wakesAt = time;
    const wake = (): void => {
      this.wakesAt = Infinity;
      this.takeDue();
    };
    this.timer = setTimeout(
      wake,
      Math.min(Math.max(0, time - Date.now()), LONGEST_SLEEP_MS),
    ).unref();
  }

  /**
   * Performs a directive. One that is unchanged afterwards is put off, since performing it again at
   * once would leave it unchanged again.
   */
  private begin(key: string, record: DirectiveRecord): void {
    const { tenant, directiveId } = record.intent;
    const performing = this.perform({ tenant, directiveId })
      .catch((error: unknown) =>
        this.terms.logger.error(
          `The directive ${directiveId} could not be processed; it is tried again.`,
          error,
        ),
      )
      .finally(() => {
        this.inHand.delete(key);
        if (this.known.get(key) === record)
          this.putOff.set(key, { record, until: Date.now() + AGAIN_MS });
        else this.putOff.delete(key);
        this.look();
      });
    this.inHand.set(key, performing);
  }

  private timeOf(key: string, record: DirectiveRecord): number {
    const putOff = this.putOff.get(key);
    const until = putOff?.record === record ? putOff.until : 0;
    return Math.max(timeOf(record), until);
  }
}

/** The time from which it may be acquired, which never comes for one that is over. */
export function timeOf(record: DirectiveRecord): number {
  return Date.parse(acquirableAt(record) ?? '') || Infinity;
}

const LONGEST_SLEEP_MS = 60_000;
const AGAIN_MS = 1_000;

/** The options of a worker. */
interface WorkTerms {
  readonly concurrency: number;
  readonly logger: Logger;
}

/** A directive that is skipped until a time, unless it changes. */
interface PutOff {
  readonly record: DirectiveRecord;
  readonly until: number;
}
