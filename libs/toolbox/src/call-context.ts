import { type ToolCallContext, ToolError } from '@toolloop/core';

/** The part of a call's context that the tools of this library use, all of it optional, so that they can be called without a loop. */
export type CallContext = Partial<Pick<ToolCallContext, 'signal' | 'progress'>>;

/** A limit of time, the signal that may end the work earlier, and the text that the model reads when the time is up. */
export interface TimeLimit {
  readonly ms: number;
  readonly signal?: AbortSignal;
  readonly timeUp: string;
  /** True where another try may end in time. @default true */
  readonly retryable?: boolean;
}

/**
 * Ends the wait at once when the caller gives up or the time is up, even where the work itself cannot be interrupted, such as a DNS lookup. `ms` is
 * milliseconds. Rejects with the reason of the caller's signal, or with a `ToolError`; the signal handed to the work is aborted with the same.
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
    either.addEventListener('abort', () => reject(either.reason), { once: true, signal: settled.signal });
  });
  try {
    either.throwIfAborted();
    return await Promise.race([work(either), ended]);
  } finally {
    clearTimeout(timeout);
    settled.abort();
  }
}
