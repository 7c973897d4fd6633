import { type ToolCallContext, ToolError } from '@toolloop/core';

/**
 * The part of a call's context that the tools of this library use, all of it optional, so that they
 * can be called without a loop.
 */
export type CallContext = Partial<Pick<ToolCallContext, 'signal' | 'progress'>>;

/**
 * A time limit, the signal that may end the work earlier, and the text that the model reads when
 * the time is up.
 */
export interface TimeLimit {
  readonly ms: number;
  readonly signal?: AbortSignal;
  readonly timeUp: string;
  /** `true` if another attempt may end in time. @default true */
  readonly retryable?: boolean;
}

/**
 * Runs some work within a time limit. Ends the wait at once when the caller aborts or the time is
 * up, even where the work itself cannot be interrupted, such as a DNS lookup. Rejects with the
 * reason of the caller's signal, or with a `ToolError`; the signal of the work is aborted with the
 * same.
 */
export async function withinTime<T>(
  { ms, signal, timeUp, retryable = true }: TimeLimit,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timer = new AbortController();
  const timeout = setTimeout(() => timer.abort(new ToolError(timeUp, { retryable })), ms);
  const either = signal ? AbortSignal.any([signal, timer.signal]) : timer.signal;
  const settled = new AbortController();
  const ended = new Promise<never>((_, reject) => {
    either.addEventListener('abort', () => reject(either.reason), {
      once: true,
      signal: settled.signal,
    });
  });
  try {
    either.throwIfAborted();
    return await Promise.race([work(either), ended]);
  } finally {
    clearTimeout(timeout);
    settled.abort();
  }
}
