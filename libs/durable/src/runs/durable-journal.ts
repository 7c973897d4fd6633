import { setTimeout as wait } from 'node:timers/promises';
import { type LoopEvent, LoopEventSink } from '@toolloop/core';
import { endingWith, type RunEntry, type RunJournal, type RunStateEntry } from '@toolloop/core/internal';
import type { RunBeginning, RunHold, RunLog, RunWrite } from '@toolloop/core/stores';
import { StorageUnavailableError } from '@toolloop/protocol';

/** The time for which events and notes of a run are collected into one write, where the process has few runs. */
const LEAST_MS = 50;
/** The time that each further run of the process adds: together they write so often and no more, since an embedded database shares the thread with all of them. */
const OF_EACH_RUN_MS = 3;
const MOST_MS = 300;
/** The time between two attempts to write the end of a run, each of which takes seconds itself where the storage does not answer. */
const AGAIN_MS = 500;
const NOTHING: RunBeginning = { entries: [], events: [] };

/** Returns the time for which events and notes are collected into one write, in milliseconds, in a process with so many durable runs. */
export function collectingMs(runs: number): number {
  return Math.min(MOST_MS, Math.max(LEAST_MS, runs * OF_EACH_RUN_MS));
}

/** The terms of a journal. */
export interface JournalTerms {
  /** The time for which events and notes are collected into one write, in milliseconds. @default 50 */
  readonly collectingMs?: () => number;
  /** The entries that other processes wrote of the run. @default none */
  readonly earlier?: readonly RunEntry[];
}

/**
 * Writes one run into the store, in the order in which things come: entries at once, with whatever came before them; events and notes together, a little later.
 * There is one write at a time, and all that comes until the next begins is part of it. What cannot be written ends the run here and nowhere else: it is not this
 * process's any more.
 */
export class DurableJournal implements RunJournal {
  readonly sink: LoopEventSink = new JournalSink((event) => this.take(event));
  private readonly begin: (beginning: RunBeginning) => Promise<RunHold>;
  private holding: Promise<RunHold> | undefined;
  private held = true;
  private hasBegun = false;
  private hasEnd = false;
  /** Set once the end of this part of the run is written: then it cannot be taken over any more. */
  private hasKept = false;
  /** Set once the reader does not wait any more for the end that is being written. */
  private isLate = false;
  private isLeaving = false;
  private events: LoopEvent[] = [];
  private entries: RunEntry[] = [];
  /** Those of `entries` and of what was written before that tell of the step which has not ended. */
  private unended: RunEntry[];
  /** The keys of what was written and is part of the end of a step by now. */
  private dropped: string[] = [];
  private closing: RunEntry[] = [];
  private ending: RunWrite['ending'];
  private writing: Promise<void> = Promise.resolve();
  /** The write that has not begun. */
  private next: Promise<void> | undefined;
  private readonly collectingMs: () => number;
  private timer: NodeJS.Timeout | undefined;
  private isTaken = false;
  private reason: string | undefined;

  /** `begin` is the hold of the run, or gets it when the run is first written, with that. */
  constructor(
    private readonly log: RunLog,
    begin: RunHold | ((beginning: RunBeginning) => Promise<RunHold>),
    { collectingMs: ms = () => LEAST_MS, earlier = [] }: JournalTerms = {},
  ) {
    this.begin = typeof begin === 'function' ? begin : () => Promise.resolve(begin);
    if (typeof begin !== 'function') this.holding = this.begin(NOTHING);
    this.collectingMs = ms;
    this.unended = earlier.slice(earlier.findLastIndex(({ type }) => type === 'begin' || type === 'step') + 1).filter(isOfStep);
  }

  /** Set while its end is being written: only that tells then if the run was still this process's. */
  get isEnding(): boolean {
    return this.hasEnd;
  }

  get isOurs(): boolean {
    return !this.isLate && (this.held || this.hasKept);
  }

  /** True once nothing is left to be done for this part of the run. */
  get isKept(): boolean {
    return this.hasKept;
  }

  /** The reason why the run was cancelled while it was this process's. */
  get cancelled(): string | undefined {
    return this.reason;
  }

  /** Notes a cancellation, unless another process has the run by then: its part is not cancelled with what is left of it here. */
  cancel(reason: string): void {
    if (!this.isTaken) this.reason ??= reason;
  }

  record(entry: RunEntry): Promise<void> {
    this.note(entry);
    return this.flush();
  }

  note(entry: RunEntry): void {
    if (!this.held) return;
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
    this.isTaken = true;
    this.drop();
  }

  /** A run of which nothing is kept is no run of anybody else's: it ends here. */
  handOver(): void {
    if (this.hasEnd) this.isLate = this.hasBegun;
    else if (this.hasBegun) this.drop();
  }

  private drop(): void {
    this.held = false;
    clearTimeout(this.timer);
  }

  private take(event: LoopEvent): Promise<void> | undefined {
    if (!this.held) return undefined;
    this.events.push(event);
    if (event.type === 'run-start') return this.flush(); // a client that knows of the run finds it
    if (event.type !== 'run-end') return this.schedule();
    const status = event.finishReason === 'waiting' ? 'waiting' : 'ended';
    for (const entry of this.closing) this.add(entry);
    this.hasEnd = true;
    const { finishReason, waitingFor } = event;
    return this.flush({ status, finishReason, ...(waitingFor && { waitingFor }) });
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
    this.drop();
  }

  private schedule(): undefined {
    this.timer ??= setTimeout(() => void this.flush().catch(() => undefined), this.collectingMs());
    return undefined;
  }

  /** One write at a time, so that what came first is kept first. */
  private flush(ending?: RunWrite['ending']): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (!this.held) return Promise.reject(new Error('The run is no longer held by this process.'));
    this.ending ??= ending;
    if (this.next) return this.next;
    this.next = this.writing.then(() => this.write());
    this.writing = this.next;
    this.writing.catch(() => undefined); // each caller that waits hears of it
    return this.writing;
  }

  /** A run that could not even be begun fails here. */
  private async write(): Promise<void> {
    const { holding } = this;
    await holding;
    this.next = undefined;
    const { events, entries, dropped, ending } = this;
    [this.events, this.entries, this.dropped] = [[], [], []];
    const isWithBeginning = !holding && !ending;
    this.holding ??= this.begin(isWithBeginning ? { events, entries } : NOTHING);
    const hold = await this.holding;
    this.hasBegun = true;
    if (isWithBeginning) return;
    try {
      await this.append(hold, { events, entries, dropped, ...(ending && { ending }) });
      this.hasKept ||= ending !== undefined;
    } catch (error) {
      this.drop();
      throw error;
    }
  }

  /** Writes for as long as it takes once the run has ended, while it is this process's: another one would do again what has ended, and continue what was cancelled. */
  private async append(hold: RunHold, write: RunWrite): Promise<void> {
    for (;;) {
      try {
        return await this.log.append(hold, write);
      } catch (error) {
        if (!this.hasEnd || !this.held || !StorageUnavailableError.in(error)) throw error;
        await wait(AGAIN_MS, undefined, { ref: false });
      }
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
