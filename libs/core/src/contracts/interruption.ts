/** Why a run or a call was interrupted. The reason of every signal we abort. */
export class Interruption extends Error {
  override readonly name = 'Interruption';

  constructor(
    readonly kind: 'aborted' | 'timeout' | 'failed',
    message: string,
    options: { readonly cause?: unknown } = {},
  ) {
    super(message, options);
  }

  /** A signal's reason as an interruption: a signal of the application's own may carry anything. */
  static from(signal: AbortSignal): Interruption {
    const reason: unknown = signal.reason;
    return reason instanceof Interruption
      ? reason
      : new Interruption('aborted', 'The run was aborted.', { cause: reason });
  }
}

/**
 * A signal that follows another and can be aborted by itself; `release` forgets the other and the
 * timer.
 */
export interface LinkedSignal {
  readonly signal: AbortSignal;
  abort(interruption: Interruption): void;
  release(): void;
}

/** Node fires a timer beyond this at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Links a signal to a parent and a time limit. Unlike `AbortSignal.any` with `timeout` it leaves no
 * timer behind once released.
 */
export function linkSignal(
  parent: AbortSignal | undefined,
  timeLimit?: { readonly ms: number; readonly message: string },
): LinkedSignal {
  const controller = new AbortController();
  const follow = (): void => controller.abort(parent && Interruption.from(parent));
  const timer =
    timeLimit && timeLimit.ms <= LONGEST_TIMER_MS
      ? setTimeout(
          () => controller.abort(new Interruption('timeout', timeLimit.message)),
          timeLimit.ms,
        )
      : undefined;
  if (parent?.aborted) follow();
  else parent?.addEventListener('abort', follow, { once: true });
  return {
    signal: controller.signal,
    abort: (interruption) => controller.abort(interruption),
    release: () => {
      clearTimeout(timer);
      parent?.removeEventListener('abort', follow);
    },
  };
}

/**
 * Settles as the work does, or rejects with the signal's interruption as soon as it is aborted,
 * whether the work listens or not.
 */
export function untilAborted<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const interrupt = (): void => reject(Interruption.from(signal));
    if (signal.aborted) interrupt();
    else signal.addEventListener('abort', interrupt, { once: true });
    // Two callbacks and no `finally`, which would cost every call three more promises.
    const settle =
      <Value>(outcome: (value: Value) => void) =>
      (value: Value): void => {
        signal.removeEventListener('abort', interrupt);
        outcome(value);
      };
    work.then(settle(resolve), settle<unknown>(reject));
  });
}

/**
 * The answer of code of the application that may be synchronous, for an `await`: what was answered
 * at once stands, though the run has ended meanwhile.
 */
export function inTime<Result>(
  work: Result | Promise<Result>,
  signal: AbortSignal,
): Result | Promise<Result> {
  return work instanceof Promise ? untilAborted(work, signal) : work;
}

/**
 * Settles as the work does, or rejects when it has not after so many milliseconds: a store that is
 * slow must not keep a run from ending.
 */
export async function withinTime<Result>(
  work: Promise<Result>,
  ms: number,
  parent?: AbortSignal,
): Promise<Result> {
  const link = linkSignal(parent, { ms, message: `It took longer than ${ms} ms.` });
  try {
    return await untilAborted(work, link.signal);
  } finally {
    link.release();
  }
}
