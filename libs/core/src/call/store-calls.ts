import { AsyncLocalStorage } from 'node:async_hooks';
import { StorageUnavailableError } from '@toolloop/protocol';
import { StoreRefusalError } from '../contracts/store-refusal.js';
import { Logger } from '../findings/logger.js';
import { Interruption, untilAborted } from '../contracts/interruption.js';

/**
 * Returns a deadline for work that asks stores so often, one after the other: longer than all of
 * them, whose last attempts may begin when their time is nearly over. A caller that gives up before
 * its store does takes for lost what is kept. No other place computes such a deadline.
 */
export function longerThanStores(calls: number): number {
  return calls * (LONGEST_CALL_MS + LONGEST_ATTEMPT_MS) + MARGIN_MS;
}

/**
 * The time for an interrupted run to store its last entries. A store that answers later still
 * stores them.
 */
const CLOSING_MS = 35;
/** One attempt; and the time within which another one begins. */
const LONGEST_ATTEMPT_MS = 4_000;
const LONGEST_CALL_MS = 8_000;
/** The delay of a timer in a process that is busy. */
const MARGIN_MS = 1_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
const logger = new Logger('Stores');

interface Deadline {
  readonly at: number;
  readonly giveUp: () => void;
}

/** The delay after its time within which a store is given up. */
const CHECK_MS = 100;

/**
 * Watches the answers that a run waits for with one timer, since most come at once and a timer for
 * each would cost more than a store in memory.
 */
class Deadlines {
  private readonly waiting = new Set<Deadline>();
  private isOver = false;
  private timer: NodeJS.Timeout | undefined;

  /** Returns what ends the watch. */
  add(ms: number, giveUp: () => void): () => void {
    const deadline = { at: performance.now() + ms, giveUp };
    this.waiting.add(deadline);
    this.timer ??= setInterval(() => this.check(), CHECK_MS);
    return () => {
      this.waiting.delete(deadline);
      if (this.isOver) this.rest();
    };
  }

  /** Lets the timer end with the run, or with the last answer that is still to come. */
  end(): void {
    this.isOver = true;
    this.rest();
  }

  private rest(): void {
    if (this.waiting.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private check(): void {
    const now = performance.now();
    for (const deadline of this.waiting) {
      if (deadline.at > now) continue;
      this.waiting.delete(deadline);
      deadline.giveUp();
    }
    this.rest();
  }
}

/** The run for which stores are asked. */
class AskingRun {
  /** Why the run cannot continue: once a question got no answer, nothing else is asked for it. */
  failure: StorageUnavailableError | undefined;
  private watched: Deadlines | undefined;
  private controller: AbortController | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    readonly signal: AbortSignal,
    private readonly closingMs: number,
  ) {}

  /** Made when a store is first asked: many calls ask none. */
  get deadlines(): Deadlines {
    return (this.watched ??= new Deadlines());
  }

  /**
   * Aborted a little after the run: by then its last entries are not waited for any more. Made when
   * it is first asked for: most calls never do.
   */
  get closing(): AbortSignal {
    if (this.controller) return this.controller.signal;
    this.controller = new AbortController();
    if (this.signal.aborted) this.follow();
    else this.signal.addEventListener('abort', this.follow, { once: true });
    return this.controller.signal;
  }

  release(): void {
    this.watched?.end();
    if (this.timer) clearTimeout(this.timer);
    if (this.controller) this.signal.removeEventListener('abort', this.follow);
  }

  private readonly follow = (): void => {
    this.timer = setTimeout(
      () => this.controller?.abort(Interruption.from(this.signal)),
      this.closingMs,
    ).unref();
  };
}

const current = new AsyncLocalStorage<AskingRun | undefined>();
/** Set within a transaction that is repeated as a whole. */
const parts = new AsyncLocalStorage<true>();
/** Set within an attempt at a call of a store. */
const attempts = new AsyncLocalStorage<boolean>();

/** One attempt at a call of a store; attempts count from 1. */
type Attempt<Result> = (number: number) => Promise<Result>;

interface StoreCallTerms<Result> {
  /**
   * True if the statement may be sent again when it is unknown whether it was performed. @default
   * true
   */
  readonly isRepeatable?: boolean;
  /**
   * Milliseconds for one attempt; Infinity for what takes as long as a person or a tool does, whose
   * caller has a limit. @default 4,000
   */
  readonly longestMs?: number;
  /** Undoes what the store did after the run had given up waiting for it. */
  readonly late?: (result: Result) => unknown;
  /**
   * Tells an error of what the store was given to do from a failure of the store. @default no error
   * is one, but refusals of what it was given
   */
  readonly isAnswer?: (error: unknown) => boolean;
}

/**
 * Runs a part of a run: every call of a store in it ends with the run.
 *
 * @param closingMs the milliseconds for which its last entries are waited for once it is
 *   interrupted
 */
export async function asRun<Result>(
  signal: AbortSignal,
  work: () => Promise<Result>,
  closingMs: number = CLOSING_MS,
): Promise<Result> {
  const run = new AskingRun(signal, closingMs);
  try {
    return await current.run(run, work);
  } finally {
    run.release();
  }
}

/** The same for a call that is made without a run; within one nothing changes. */
export function asCall<Result>(signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
  return current.getStore() ? work() : asRun(signal, work);
}

/** Runs what is no part of the run in which it is begun, and may outlive it. */
export function outsideOfRuns<Result>(work: () => Result): Result {
  return current.run(undefined, work);
}

/** Runs what is part of another call of a store, and is repeated with it, not by itself. */
export function asPart<Result>(work: () => Result): Result {
  return parts.run(true, work);
}

/** Runs work as an attempt at a call of a store is run; see {@link isStoreAttempt}. */
export function asStoreAttempt<Result>(work: () => Result): Result {
  return attempts.run(true, work);
}

/**
 * Tells whether the code that runs is an attempt at a call of a store: its statements take seconds
 * at most, so one without an answer for much longer was asked over a connection that is gone.
 */
export function isStoreAttempt(): boolean {
  return attempts.getStore() === true;
}

/** Waits for work no longer than the run lives. */
export function whileRunLives<Result>(work: Promise<Result>): Promise<Result> {
  const run = current.getStore();
  return run ? untilAborted(work, run.signal) : work;
}

/**
 * Waits for work that is to be done even where the run has ended, for as long as an interrupted run
 * may wait. What fails after that is logged, unless the failure is that the run was interrupted.
 */
export async function untilRunCloses<Result>(what: string, work: Promise<Result>): Promise<Result> {
  const run = current.getStore();
  if (!run) return work;
  try {
    return await untilAborted(work, run.closing);
  } catch (error) {
    if (run.closing.aborted)
      work.catch((cause: unknown) => {
        if (!(cause instanceof Interruption))
          logger.error(`${what} failed after its run had ended.`, cause);
      });
    throw error;
  }
}

/**
 * Asks a store what the run needs before it does anything else. Given up as soon as the run is
 * interrupted. A failure that may pass is repeated for 8 s.
 *
 * @throws {StorageUnavailableError} Where it has not passed by then, and at once for any other
 *   failure of the store.
 * @throws {Interruption} Of the run.
 */
export async function askStore<Result>(
  attempt: Attempt<Result>,
  terms: StoreCallTerms<Result> = {},
): Promise<Result> {
  const run = current.getStore();
  if (!run) return repeated(attempt, terms);
  if (run.signal.aborted) throw Interruption.from(run.signal);
  if (run.failure) throw run.failure;
  const { late } = terms;
  const asked = repeated(attempt, terms, run.signal);
  try {
    return await untilAborted(asked, run.signal);
  } catch (error) {
    if (error instanceof StorageUnavailableError) run.failure ??= error;
    // what failed did nothing
    else if (late && run.signal.aborted)
      asked.then((result) => undo(late, result)).catch(() => undefined);
    throw error;
  }
}

/**
 * Tells a store the last word on something: it is told even where the run is interrupted, which
 * waits for it only a moment. A failure that may pass is repeated for 8 s.
 *
 * @throws {StorageUnavailableError} Where it has not passed by then, and at once for any other
 *   failure of the store.
 */
export function tellStore<Result>(
  what: string,
  attempt: Attempt<Result>,
  isAnswer?: (error: unknown) => boolean,
): Promise<Result> {
  return untilRunCloses(what, repeated(attempt, isAnswer && { isAnswer }));
}

/** The same for a store that may have an answer at once, which no one has to wait for. */
export function tellQuickStore<Result>(
  what: string,
  attempt: (number: number) => Result | Promise<Result>,
): Result | Promise<Result> {
  const again = async (first: Promise<Result>): Promise<Result> =>
    tellStore(what, async (number) => (number === 1 ? first : attempt(number)));
  try {
    const first = asStoreAttempt(() => attempt(1));
    return first instanceof Promise ? again(first) : first;
  } catch (error) {
    return again(
      Promise.reject(
        error instanceof Error
          ? error
          : new Error('A store threw what is no error.', { cause: error }),
      ),
    );
  }
}

async function repeated<Result>(
  attempt: Attempt<Result>,
  {
    isRepeatable = true,
    longestMs = LONGEST_ATTEMPT_MS,
    late,
    isAnswer,
  }: StoreCallTerms<Result> = {},
  signal?: AbortSignal,
): Promise<Result> {
  const until = Date.now() + LONGEST_CALL_MS;
  const isLastBy = (pause: number): boolean =>
    !isRepeatable ||
    parts.getStore() === true ||
    signal?.aborted === true ||
    Date.now() + pause >= until;
  let hasGivenUp = false;
  const onLate = (result: Result): void => {
    if (late && hasGivenUp) undo(late, result);
  };
  for (let number = 1; ; number += 1) {
    try {
      return await answered(
        Promise.resolve(attempts.run(longestMs !== Infinity, () => attempt(number))),
        longestMs,
        onLate,
      );
    } catch (error) {
      const failure = failureIn(error, isAnswer);
      if (!failure) throw error;
      const pause = Math.min(FIRST_PAUSE_MS * 2 ** (number - 1), LONGEST_PAUSE_MS);
      hasGivenUp = !failure.mayPass || isLastBy(pause);
      if (hasGivenUp) throw failure;
      await new Promise<void>((resolve) => setTimeout(resolve, pause));
    }
  }
}

/**
 * The failure of a store that an error is; undefined for its answer. Whatever a store fails with
 * says nothing of what was asked of it, and its text, which may name a path, is for logs.
 */
function failureIn(
  error: unknown,
  isAnswer: (error: unknown) => boolean = () => false,
): StorageUnavailableError | undefined {
  const known = StorageUnavailableError.in(error);
  if (
    known ||
    error instanceof StoreRefusalError ||
    error instanceof Interruption ||
    isAnswer(error)
  )
    return known;
  return new StorageUnavailableError(
    'A store failed, which says nothing of what was asked of it.',
    { cause: error, mayPass: false },
  );
}

/** Settles as the store's answer does, or when that takes too long. */
function answered<Result>(
  asked: Promise<Result>,
  ms: number,
  onLate: (result: Result) => void,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    let isLate = false;
    const giveUp = (): void => {
      isLate = true;
      reject(new StorageUnavailableError(`A store has not answered within ${ms} ms.`));
    };
    const endWatch = ms === Infinity ? undefined : watched(ms, giveUp);
    asked.then(
      (result) => {
        endWatch?.();
        if (isLate) return onLate(result);
        return resolve(result);
      },
      (error: unknown) => {
        endWatch?.();
        reject(
          error instanceof Error
            ? error
            : new Error('A store rejected with what is no error.', { cause: error }),
        );
      },
    );
  });
}

/** Gives up after so many milliseconds, unless what is returned is called before. */
function watched(ms: number, giveUp: () => void): () => void {
  const run = current.getStore();
  if (run) return run.deadlines.add(ms, giveUp);
  const timer = setTimeout(giveUp, ms);
  return () => clearTimeout(timer);
}

function undo<Result>(late: (result: Result) => unknown, result: Result): void {
  const undoing = outsideOfRuns(() => Promise.resolve(result).then(late));
  undoing.catch((error: unknown) =>
    logger.error('What a store did for a run that had ended could not be undone.', error),
  );
}
