import { isObservable, type Observable } from 'rxjs';
import { Interruption } from './interruption.js';

/** Called with every value of a streaming result but the last. Never throws. */
export type OnProgress = (value: unknown) => void | Promise<void>;

/**
 * A streaming result's last value, the others handed to `onProgress`; any other result as it is. Aborting ends the stream at its source, and a stream
 * that comes too late is not begun.
 */
export function drain(result: unknown, onProgress: OnProgress, signal: AbortSignal): unknown {
  if (isObservable(result)) return drainObservable(result, onProgress, signal);
  if (isAsyncIterable(result)) return drainIterable(result, onProgress, signal);
  if (isThenable(result)) return Promise.resolve(result).then((value) => (isStream(value) ? drain(value, onProgress, signal) : value));
  return result;
}

function drainObservable(source: Observable<unknown>, onProgress: OnProgress, signal: AbortSignal): Promise<unknown> {
  if (signal.aborted) return Promise.reject(Interruption.from(signal));
  return new Promise((resolve, reject) => {
    let last: unknown;
    let started = false;
    const subscription = source.subscribe({
      next: (value) => {
        if (started) void onProgress(last);
        started = true;
        last = value;
      },
      error: reject,
      complete: () => resolve(last),
    });
    const leave = (): void => subscription.unsubscribe();
    if (signal.aborted) leave();
    signal.addEventListener('abort', leave, { once: true });
  });
}

async function drainIterable(source: AsyncIterable<unknown>, onProgress: OnProgress, signal: AbortSignal): Promise<unknown> {
  if (signal.aborted) throw Interruption.from(signal);
  const iterator = source[Symbol.asyncIterator]();
  signal.addEventListener('abort', () => void close(iterator), { once: true });
  let last: unknown;
  let started = false;
  for await (const value of { [Symbol.asyncIterator]: () => iterator }) {
    if (signal.aborted) break;
    if (started) await onProgress(last);
    started = true;
    last = value;
  }
  return last;
}

/** Told at once, even while a value is awaited; what the source makes of it is its own business. */
async function close(iterator: AsyncIterator<unknown>): Promise<void> {
  try {
    await iterator.return?.();
  } catch {
    // the call has its outcome already
  }
}

function isStream(value: unknown): boolean {
  return isObservable(value) || isAsyncIterable(value);
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
