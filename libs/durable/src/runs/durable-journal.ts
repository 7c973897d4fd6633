import { setTimeout as wait } from 'node:timers/promises';
import { type LoopEvent, LoopEventSink } from '@toolloop/core';
import {
  endingWith,
  Logger,
  longerThanStores,
  type RunEntry,
  type RunJournal,
  type RunStateEntry,
} from '@toolloop/core/internal';
import {
  type CallJournal,
  type FinishedCall,
  type JournalClaim,
  type JournalStart,
  type Lease,
  type OwedEntry,
  type RunBeginning,
  type RunHold,
  type RunLog,
  RunLostError,
  type RunWrite,
} from '@toolloop/core/stores';
import { StorageUnavailableError } from '@toolloop/protocol';

/**
 * Writes one run into the store, in the order in which things come: entries at once, with whatever
 * came before them; events and notes together, a little later. There is one write at a time, and
 * all that comes until the next begins is part of it: the calls that are begun and finished as
 * well, where they are in the same database. What cannot be written ends the run here and nowhere
 * else: it is not this process's any more.
 */
export class DurableJournal implements RunJournal {
  readonly sink: LoopEventSink = new JournalSink((event) => this.take(event));
  readonly calls?: NonNullable<RunJournal['calls']>;
  readonly closingMs?: number;
  private readonly logger = new Logger('DurableRuns');
  private readonly journal: CallJournal | undefined;
  private begun: BegunCall[] = [];
  private finished: FinishedCall[] = [];
  private owed: OwedEntry[] = [];
  /**
   * The outcomes that could not be kept with the run, and are told to the journal by themselves;
   * and what the audit has not taken of them.
   */
  private apart: Promise<unknown> = Promise.resolve();
  private readonly begin: (beginning: RunBeginning) => Promise<RunHold>;
  private holding: Promise<RunHold> | undefined;
  private held = true;
  private hasBegun = false;
  private hasEnd = false;
  /** Set once the end of this part of the run is written: then it cannot be taken over any more. */
  private hasKept = false;
  /** Set once a store failed, so that the run is handed over. */
  private hasFailed = false;
  private cause: unknown;
  private hasEndedStep = false;
  /** Set once the reader does not wait any more for the end that is being written. */
  private isLate = false;
  private isLeaving = false;
  private events: LoopEvent[] = [];
  private entries: RunEntry[] = [];
  /**
   * Those of `entries` and of what was written before that tell of the step which has not ended.
   */
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
    { collectingMs: ms = () => LEAST_MS, closingMs, earlier = [], calls }: JournalTerms = {},
  ) {
    if (closingMs !== undefined) this.closingMs = closingMs;
    this.journal = calls;
    if (calls)
      this.calls = {
        acquire: (start) => this.beginCall(start, calls),
        finish: (hold, outcome) => this.finishCall({ hold, outcome }),
      };
    this.begin = typeof begin === 'function' ? begin : () => Promise.resolve(begin);
    if (typeof begin !== 'function') this.holding = this.begin(NOTHING);
    this.collectingMs = ms;
    this.unended = earlier
      .slice(earlier.findLastIndex(({ type }) => type === 'begin' || type === 'step') + 1)
      .filter(isOfStep);
  }

  /**
   * Set while its end is being written: only that tells then if the run was still this process's.
   */
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

  /** True where the run is given away since a store failed. */
  get isPutOff(): boolean {
    return this.hasFailed;
  }

  /** The first failure of a store for which the run is given away. */
  get failure(): unknown {
    return this.cause;
  }

  /** True once this process has ended a step of the run, or a part of it. */
  get hasProgressed(): boolean {
    return this.hasEndedStep;
  }

  /** The reason why the run was cancelled while it was this process's. */
  get cancelled(): string | undefined {
    return this.reason;
  }

  /**
   * Notes a cancellation, unless another process has the run by then: its part is not cancelled
   * with what is left of it here.
   */
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

  owe(entries: readonly OwedEntry[]): void {
    if (!this.held || this.hasEnd) return this.oweApart(entries);
    this.owed.push(...entries);
    this.schedule();
  }

  kept(): Promise<void> {
    return this.held && this.entries.length === 0 ? this.writing : this.flush();
  }

  /**
   * Another attempt has the key where the write did not take it; or this one has it, by a write
   * whose answer was lost.
   */
  private async beginCall(start: JournalStart, journal: CallJournal): Promise<JournalClaim> {
    const call: BegunCall = { start };
    this.begun.push(call);
    await this.flush();
    return call.lease ? { status: 'acquired', lease: call.lease } : journal.acquire(start);
  }

  private finishCall(call: FinishedCall): Promise<void> {
    this.finished.push(call);
    if (!this.held) this.finishApart(this.finished.splice(0));
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.held) this.schedule(OUTCOME_MS);
    return Promise.resolve();
  }

  /**
   * Tells the journal itself how calls ended, also where another process has the run by then. One
   * that cannot be kept leaves its key taken, which errs on the side of no second effect.
   */
  private finishApart(calls: readonly FinishedCall[]): void {
    const report = (error: unknown): void =>
      this.logger.error(
        'The outcome of a call of a durable run could not be stored, so its key stays taken.',
        error,
      );
    const told = calls.map(({ hold, outcome }) =>
      this.journal?.finish(hold, outcome).catch(report),
    );
    this.apart = Promise.all([this.apart, ...told]);
  }

  private oweApart(entries: readonly OwedEntry[] = []): void {
    if (entries.length === 0) return;
    const report = (error: unknown): void =>
      this.logger.warn(
        'What the audit has not taken of a durable run could not be stored: only this process has it.',
        error,
      );
    this.apart = Promise.all([this.apart, this.log.owe(entries).catch(report)]);
  }

  /**
   * Resolves when nothing more is written, to the hold there was; undefined where the run had not
   * begun.
   */
  async settled(): Promise<RunHold | undefined> {
    await this.writing.catch(() => undefined);
    await this.apart;
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
  handOver(cause: unknown): void {
    this.cause ??= cause;
    this.hasFailed = this.hasBegun;
    if (this.hasEnd) this.isLate = this.hasBegun;
    else if (this.hasBegun) this.drop();
  }

  private drop(): void {
    this.held = false;
    clearTimeout(this.timer);
    this.finishApart(this.finished.splice(0));
    this.oweApart(this.owed.splice(0));
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
    if (isOfStep(entry))
      this.unended = [...this.unended.filter(({ key }) => key !== entry.key), entry];
  }

  /** The end of a step takes the place of everything that told of the step before. */
  private addEnd(end: RunStateEntry): void {
    const [noted, unended] = [new Set(this.entries), new Set(this.unended)];
    this.dropped.push(...this.unended.filter((entry) => !noted.has(entry)).map(({ key }) => key));
    this.entries = [
      ...this.entries.filter((entry) => !unended.has(entry)),
      endingWith(this.unended, end),
    ];
    this.unended = [];
  }

  private leave(): void {
    void this.flush().catch(() => undefined);
    this.drop();
  }

  private schedule(ms = this.collectingMs()): undefined {
    this.timer ??= setTimeout(() => void this.flush().catch(() => undefined), ms);
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
    const { begun } = this;
    const write = this.taken();
    const isWithBeginning = !holding && !write.ending && !write.calls && !write.owed;
    this.holding ??= this.begin(isWithBeginning ? write : NOTHING);
    const hold = await this.holding;
    this.hasBegun = true;
    if (!isWithBeginning) await this.appended(hold, write, begun);
  }

  private async appended(
    hold: RunHold,
    write: RunWrite,
    begun: readonly BegunCall[],
  ): Promise<void> {
    try {
      const leases = (await this.append(hold, write)) ?? [];
      for (const [place, call] of begun.entries()) call.lease = leases[place];
      this.hasKept ||= write.ending !== undefined;
      this.hasEndedStep ||= write.entries.some(({ type }) => type === 'step');
    } catch (error) {
      this.noteFailure(error);
      this.drop();
      this.finishApart(write.calls?.finished ?? []);
      this.oweApart(write.owed);
      throw error;
    }
  }

  private noteFailure(error: unknown): void {
    this.cause ??= error;
    this.hasFailed ||= this.held && !(error instanceof RunLostError);
  }

  /** Takes what is to be written by now. */
  private taken(): RunWrite {
    const { events, entries, dropped, ending, begun, finished, owed } = this;
    [this.events, this.entries, this.dropped] = [[], [], []];
    [this.begun, this.finished, this.owed] = [[], [], []];
    const calls = { begun: begun.map(({ start }) => start), finished };
    return {
      events,
      entries,
      dropped,
      ...(ending && { ending }),
      ...(begun.length + finished.length > 0 && { calls }),
      ...(owed.length > 0 && { owed }),
    };
  }

  /**
   * Writes for as long as it takes once the run has ended, while it is this process's: another one
   * would do again what has ended, and continue what was cancelled.
   */
  private async append(hold: RunHold, write: RunWrite): ReturnType<RunLog['append']> {
    for (;;) {
      try {
        return await this.log.append(hold, write);
      } catch (error) {
        const finished = isOfContent(error) ? (write.calls?.finished ?? []) : [];
        if (finished.length > 0) return this.appendWithout(finished, hold, write);
        if (!this.hasEnd || !this.held || !mayPass(error)) throw error;
        await wait(AGAIN_MS, undefined, { ref: false });
      }
    }
  }

  /**
   * One outcome that the database does not take must not end the run: each is told by itself, and
   * the rest written.
   */
  private appendWithout(
    finished: readonly FinishedCall[],
    hold: RunHold,
    { calls, ...write }: RunWrite,
  ): ReturnType<RunLog['append']> {
    this.finishApart(finished);
    const begun = calls?.begun ?? [];
    return this.append(hold, {
      ...write,
      ...(begun.length > 0 && { calls: { begun, finished: [] } }),
    });
  }
}

/**
 * Returns the time for which events and notes are collected into one write, in milliseconds, in a
 * process with so many durable runs.
 */
export function collectingMs(runs: number): number {
  return Math.min(MOST_MS, Math.max(LEAST_MS, runs * OF_EACH_RUN_MS));
}

/** The terms of a journal. */
export interface JournalTerms {
  /**
   * The time for which events and notes are collected into one write, in milliseconds. @default 50
   */
  readonly collectingMs?: () => number;
  /** See `RunJournal`. */
  readonly closingMs?: number;
  /** The entries that other processes wrote of the run. @default none */
  readonly earlier?: readonly RunEntry[];
  /** The journal of calls, where the writes of the log may begin and finish them. @default none */
  readonly calls?: CallJournal | undefined;
}

/**
 * The time for which events and notes of a run are collected into one write, where the process has
 * few runs.
 */
const LEAST_MS = 50;
/**
 * The time that each further run of the process adds: together they write so often and no more,
 * since an embedded database shares the thread with all of them.
 */
const OF_EACH_RUN_MS = 3;
const MOST_MS = 300;
/**
 * The time for which the outcome of a call waits for the entry that tells of it. A process that
 * dies meanwhile leaves a call of which it is unknown whether it took place.
 */
const OUTCOME_MS = 5;
/**
 * The time between two attempts to write the end of a run, each of which takes seconds itself where
 * the storage does not answer.
 */
const AGAIN_MS = 500;
const NOTHING: RunBeginning = { entries: [], events: [] };

/** A call that is begun with the next write, which says whether its key is ours. */
interface BegunCall {
  readonly start: JournalStart;
  lease?: Lease | undefined;
}

/** Tells if a write failed for what is in it. */
function isOfContent(error: unknown): boolean {
  return !mayPass(error) && !(error instanceof RunLostError);
}

function mayPass(error: unknown): boolean {
  return StorageUnavailableError.in(error)?.mayPass === true;
}

/**
 * The beginning stays as it is, and so does what the user added, which a later step may be the
 * first to read.
 */
function isOfStep({ type }: RunEntry): boolean {
  return type !== 'begin' && type !== 'input';
}

class JournalSink extends LoopEventSink {
  override readonly critical = true;
  /** For the write that is under way, and the next. */
  override readonly longestMs = longerThanStores(2);

  constructor(override readonly write: (event: LoopEvent) => Promise<void> | undefined) {
    super();
  }
}
