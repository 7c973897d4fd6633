import { type LoopEvent, LoopEventSink } from '@toolloop/core';
import { endingWith, type RunEntry, type RunJournal, type RunStateEntry } from '@toolloop/core/internal';
import type { RunHold, RunLog, RunWrite } from '@toolloop/core/stores';

/** The time for which events and notes are collected into one write. */
const FLUSH_MS = 50;

/**
 * Writes one run into the store, in the order in which things come: entries at once, with whatever came before them; events and notes together, within 50 ms.
 * What cannot be written ends the run here and nowhere else: it is not this process's any more.
 */
export class DurableJournal implements RunJournal {
  readonly sink: LoopEventSink = new JournalSink((event) => this.take(event));
  private holding: Promise<RunHold> | undefined;
  private held = true;
  private hasBegun = false;
  private hasEnd = false;
  /** Set once the end of this part of the run is written: then it cannot be taken over any more. */
  private isKept = false;
  private isLeaving = false;
  private events: LoopEvent[] = [];
  private entries: RunEntry[] = [];
  /** Those of `entries` and of what was written before that tell of the step which has not ended. */
  private unended: RunEntry[];
  /** The keys of what was written and is part of the end of a step by now. */
  private dropped: string[] = [];
  private closing: RunEntry[] = [];
  private writing: Promise<void> = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;

  /** `begin` gets the hold of the run when it is first written; `earlier` is what other processes wrote of it. */
  constructor(
    private readonly log: RunLog,
    private readonly begin: () => Promise<RunHold>,
    earlier: readonly RunEntry[] = [],
  ) {
    this.unended = earlier.slice(earlier.findLastIndex(({ type }) => type === 'begin' || type === 'step') + 1).filter(isOfStep);
  }

  /** Set while its end is being written: only that tells then if the run was still this process's. */
  get isEnding(): boolean {
    return this.hasEnd;
  }

  get isOurs(): boolean {
    return this.held || this.isKept;
  }

  record(entry: RunEntry): Promise<void> {
    this.note(entry);
    return this.flush();
  }

  note(entry: RunEntry): void {
    const isStep = entry.type === 'step';
    if (entry.type === 'wait' || entry.type === 'end')
      this.closing.push(entry); // kept together with the `run-end` that follows
    else this.add(entry);
    if (this.isLeaving && isStep) this.leave();
    else this.schedule();
  }

  /** Resolves when nothing more is written, to the hold there was; undefined where the run had not begun. */
  async settled(): Promise<RunHold | undefined> {
    await this.writing.catch(() => undefined);
    return this.holding?.catch(() => undefined);
  }

  /** Gives the run away when the step it is in has ended. */
  leaveAfterStep(): void {
    this.isLeaving = true;
  }

  /** The run is another process's, or is given to any with room; nothing more is written. */
  lose(): void {
    this.held = false;
    clearTimeout(this.timer);
  }

  /** A run of which nothing is kept is no run of anybody else's: it ends here. */
  handOver(): void {
    if (this.hasBegun) this.lose();
  }

  private take(event: LoopEvent): Promise<void> | undefined {
    if (!this.held) return undefined;
    this.events.push(event);
    if (event.type === 'run-start') return this.flush(); // a client that knows of the run finds it
    if (event.type !== 'run-end') return this.schedule();
    const status = event.finishReason === 'waiting' ? 'waiting' : 'ended';
    for (const entry of this.closing) this.add(entry);
    this.hasEnd = true;
    return this.flush({ status, finishReason: event.finishReason });
  }

  private add(entry: RunEntry): void {
    if (entry.type === 'step' || entry.type === 'end') return this.addEnd(entry);
    this.entries.push(entry);
    if (isOfStep(entry)) this.unended = [...this.unended.filter(({ key }) => key !== entry.key), entry];
  }

  /** The end of a step takes the place of everything that told of the step before. */
  private addEnd(end: RunStateEntry): void {
    const [noted, unended] = [new Set(this.entries), new Set(this.unended)];
    this.dropped.push(...this.unended.filter((entry) => !noted.has(entry)).map(({ key }) => key));
    this.entries = [...this.entries.filter((entry) => !unended.has(entry)), endingWith(this.unended, end)];
    this.unended = [];
  }

  private leave(): void {
    void this.flush().catch(() => undefined);
    this.lose();
  }

  private schedule(): undefined {
    this.timer ??= setTimeout(() => void this.flush().catch(() => undefined), FLUSH_MS);
    return undefined;
  }

  /** One write at a time, so that what came first is kept first. */
  private flush(ending?: RunWrite['ending']): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (!this.held) return Promise.reject(new Error('The run is no longer held by this process.'));
    const { events, entries, dropped } = this;
    [this.events, this.entries, this.dropped] = [[], [], []];
    const write = { events, entries, dropped, ...(ending && { ending }) };
    this.writing = this.writing.then(() => this.write(write));
    this.writing.catch(() => undefined); // each caller that waits hears of it
    return this.writing;
  }

  /** A run that could not even be begun fails here. */
  private async write(write: RunWrite): Promise<void> {
    this.holding ??= this.begin();
    const hold = await this.holding;
    this.hasBegun = true;
    try {
      await this.log.append(hold, write);
      this.isKept ||= write.ending !== undefined;
    } catch (error) {
      this.lose();
      throw error;
    }
  }
}

/** The beginning stays as it is, and so does what the user added, which a later step may be the first to read. */
function isOfStep({ type }: RunEntry): boolean {
  return type !== 'begin' && type !== 'input';
}

class JournalSink extends LoopEventSink {
  override readonly critical = true;

  constructor(override readonly write: (event: LoopEvent) => Promise<void> | undefined) {
    super();
  }
}
