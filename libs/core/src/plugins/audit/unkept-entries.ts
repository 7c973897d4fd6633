import { Logger } from '../../findings/logger.js';
import type { NotedContent, NotedEntry } from './noted-entry.js';
import type { OwedEntries, OwingJournal } from './owed-entries.js';

/**
 * Keeps later the entries about what has happened that could not be kept at once: those of this
 * process, and those that the log of runs has of any.
 */
export class UnkeptEntries {
  private readonly logger = new Logger('Audit');
  /** In their order. */
  private readonly late: NotedEntry[] = [];
  private settling: Promise<void> | undefined;
  private pauseMs = FIRST_PAUSE_MS;
  private timer: NodeJS.Timeout | undefined;

  /** `keepOnce` appends an entry unless it is in the chain. */
  constructor(
    private readonly keepOnce: (entry: NotedEntry) => Promise<void>,
    private readonly owed: OwedEntries | undefined,
  ) {}

  /** Never rejects; without a journal it resolves once the log of runs has the entry. */
  async postpone(
    entry: NotedEntry,
    error: unknown,
    journal: OwingJournal | undefined,
  ): Promise<void> {
    const isKeptLater = this.keepLater(entry);
    this.logger.error(
      `The audit could not keep an entry ${isKeptLater ? 'yet' : 'and forgets it'} (${nameOf(entry.content)}).`,
      error,
    );
    await this.owed?.owe([entry], journal);
  }

  /** Tries again later, if there is room. An entry that is owed needs nothing else. */
  keepLater(entry: NotedEntry): boolean {
    const hasRoom = this.late.length < MAX_LATE;
    if (hasRoom) this.late.push(entry);
    this.schedule();
    return hasRoom;
  }

  /** Keeps what waits, as far as the stores allow. Never rejects; once at a time. */
  settle(): Promise<void> {
    this.settling ??= this.settleAll().finally(() => {
      this.settling = undefined;
      if (this.late.length > 0) this.schedule();
    });
    return this.settling;
  }

  /** Keeps what waits before the process ends. */
  async end(): Promise<void> {
    clearTimeout(this.timer);
    if (this.late.length > 0) await this.settle();
    await this.settling;
    clearTimeout(this.timer);
    if (this.late.length > 0)
      this.logger.error(
        `${this.late.length} entries of the audit could not be kept before the process ended.`,
      );
  }

  private schedule(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.settle(), this.pauseMs).unref();
    this.pauseMs = Math.min(2 * this.pauseMs, LONGEST_PAUSE_MS);
  }

  /** Tries to keep all of it; a failure is logged already, and the rest is tried again. */
  private async settleAll(): Promise<void> {
    await this.keepLate().catch(() => undefined);
    await this.owed?.settle(this.keepOnce).catch(() => undefined);
  }

  private async keepLate(): Promise<void> {
    for (let [late] = this.late; late; [late] = this.late) {
      await this.keepOnce(late);
      this.late.shift();
    }
    this.pauseMs = FIRST_PAUSE_MS;
  }
}

const FIRST_PAUSE_MS = 1_000;

const LONGEST_PAUSE_MS = 60_000;

/** The entries of this process that wait to be kept later. */
const MAX_LATE = 10_000;

/** Returns a name of an entry for messages. */
export function nameOf({ kind, runId }: NotedContent): string {
  return runId === undefined ? kind : `${kind}, run ${runId}`;
}
