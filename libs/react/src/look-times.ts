/**
 * The times at which to look whether a run that waits has moved: soon after a notice or an answer,
 * then less and less often. A page that is hidden looks at notices alone, and once it is shown
 * again. They take the place of a connection for each such run, of which a browser has six for each
 * host.
 */
export class LookTimes {
  private readonly watchers = new Set<() => void>();

  constructor(private readonly notices?: Notices) {}

  /** Says that a run may have moved. */
  readonly now = (): void => {
    for (const wake of this.watchers) wake();
  };

  /** Gives the times until they are left, or the signal is aborted. */
  readonly times = (signal?: AbortSignal): AsyncIterable<void> => ({
    [Symbol.asyncIterator]: () => this.begin(signal),
  });

  private async *begin(signal?: AbortSignal): AsyncGenerator<void, void, undefined> {
    const pace = new Pace(this.notices ? SELDOM_MS : OFTEN_MS);
    const leave = this.notices?.(pace.wake);
    this.watchers.add(pace.wake);
    signal?.addEventListener('abort', pace.wake);
    globalThis.document?.addEventListener('visibilitychange', pace.wake);
    try {
      for (;;) {
        await pace.next();
        signal?.throwIfAborted();
        yield;
      }
    } finally {
      leave?.();
      this.watchers.delete(pace.wake);
      signal?.removeEventListener('abort', pace.wake);
      globalThis.document?.removeEventListener('visibilitychange', pace.wake);
    }
  }
}

/**
 * Tells of changes until the returned function is called: something has happened after which a run
 * that waits may have moved.
 */
export type Notices = (told: () => void) => () => void;

/**
 * The milliseconds between two looks at a run that waits: the first after an answer, each twice the
 * one before, up to the longest without notices, or with them.
 */
const SOON_MS = 250;
const OFTEN_MS = 3_000;
const SELDOM_MS = 15_000;

/** The pauses of one reader. */
class Pace {
  private delay = SOON_MS;
  private isDue = false;
  private resolve = (): void => undefined;

  constructor(private readonly longest: number) {}

  /** Ends the pause; one that comes between two pauses leaves out the next. */
  readonly wake = (): void => {
    this.delay = SOON_MS;
    this.isDue = true;
    this.resolve();
  };

  async next(): Promise<void> {
    const timer = setTimeout(() => globalThis.document?.hidden || this.resolve(), this.delay);
    this.delay = Math.min(this.delay * 2, this.longest);
    await new Promise<void>((resolve) => {
      this.resolve = resolve;
      if (this.isDue) resolve();
    });
    this.isDue = false;
    clearTimeout(timer);
  }
}
