import { type LoopEvent, LoopEventSink } from '@toolloop/core';
import type { RunEntry, RunJournal } from '@toolloop/core/internal';
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
  private closing: RunEntry[] = [];
  private writing: Promise<void> = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;

  /** `begin` gets the hold of the run when it is first written. */
  constructor(
    private readonly log: RunLog,
    private readonly begin: () => Promise<RunHold>,
  ) {}

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
    if (isStep) this.entries = this.entries.filter(({ type }) => type !== 'tool'); // a step that has ended holds what became of its calls
    if (entry.type === 'wait' || entry.type === 'end')
      this.closing.push(entry); // kept together with the `run-end` that follows
    else this.entries.push(entry);
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
    this.entries.push(...this.closing);
    this.hasEnd = true;
    return this.flush({ status, finishReason: event.finishReason });
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
    const { events, entries } = this;
    [this.events, this.entries] = [[], []];
    const write = { events, entries, ...(ending && { ending }) };
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

class JournalSink extends LoopEventSink {
  override readonly critical = true;

  constructor(override readonly write: (event: LoopEvent) => Promise<void> | undefined) {
    super();
  }
}
