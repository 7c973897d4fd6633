import type { LoggerService } from '@nestjs/common';
import type { DirectiveRecord, DirectiveReference } from '../../protocol/directive.js';

const LONGEST_SLEEP_MS = 60_000;
const AGAIN_MS = 1_000;

/** How a worker works. */
interface WorkTerms {
  readonly concurrency: number;
  readonly logger: LoggerService;
}

/** The worker of one process: sleeps until the next directive is due, and never keeps the process alive. */
export class DueWork {
  private readonly inHand = new Map<string, Promise<void>>();
  /** When to come again to those that were rejected. */
  private readonly put = new Map<string, number>();
  private timer: NodeJS.Timeout | undefined;
  private hasStopped = false;

  constructor(
    /** By any key; it changes as directives do. */
    private readonly known: ReadonlyMap<string, DirectiveRecord>,
    private readonly perform: (reference: DirectiveReference) => Promise<void>,
    private readonly terms: WorkTerms,
  ) {}

  /** Takes what is due as far as there is room, and comes again when something else is. */
  look(): void {
    clearTimeout(this.timer);
    if (this.hasStopped) return;
    this.timer = setTimeout(() => this.takeDue(), 0).unref();
  }

  async stop(): Promise<void> {
    this.hasStopped = true;
    clearTimeout(this.timer);
    await Promise.all(this.inHand.values());
  }

  private takeDue(): void {
    const now = Date.now();
    const waiting = [...this.known.values()].filter(({ intent }) => !this.inHand.has(intent.directiveId));
    for (const record of waiting) {
      if (this.inHand.size >= this.terms.concurrency) return; // whoever is ready looks again
      if (this.timeOf(record) <= now) this.begin(record);
    }
    const next = Math.min(...waiting.map((record) => this.timeOf(record)).filter((time) => time > now));
    if (next < Infinity) this.timer = setTimeout(() => this.takeDue(), Math.min(next - now, LONGEST_SLEEP_MS)).unref();
  }

  private begin({ intent: { tenant, directiveId } }: DirectiveRecord): void {
    const performing = this.perform({ tenant, directiveId })
      .then(() => void this.put.delete(directiveId))
      .catch((error: unknown) => {
        this.put.set(directiveId, Date.now() + AGAIN_MS);
        this.terms.logger.error(`The directive ${directiveId} could not be looked after; it is tried again.`, error);
      })
      .finally(() => {
        this.inHand.delete(directiveId);
        this.look();
      });
    this.inHand.set(directiveId, performing);
  }

  private timeOf({ intent, dueAt }: DirectiveRecord): number {
    return Math.max(dueAt === undefined ? Infinity : Date.parse(dueAt), this.put.get(intent.directiveId) ?? 0);
  }
}
