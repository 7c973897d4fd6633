import { isObservable, type Observable } from 'rxjs';

/** Called with every value of a streaming result but the last. */
export type OnProgress = (value: unknown) => void | Promise<void>;

/** A streaming result's last value, the others handed to `onProgress`; any other result as it is. Aborting ends the stream at its source. */
export function drain(result: unknown, onProgress: OnProgress, signal: AbortSignal): unknown {
  if (isObservable(result)) return drainObservable(result, onProgress, signal);
  if (isAsyncIterable(result)) return drainIterable(result, onProgress, signal);
  if (isThenable(result)) return Promise.resolve(result).then((value) => (isStream(value) ? drain(value, onProgress, signal) : value));
  return result;
}

function drainObservable(source: Observable<unknown>, onProgress: OnProgress, signal: AbortSignal): Promise<unknown> {
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
    signal.addEventListener('abort', () => subscription.unsubscribe(), { once: true });
  });
}

async function drainIterable(source: AsyncIterable<unknown>, onProgress: OnProgress, signal: AbortSignal): Promise<unknown> {
  let last: unknown;
  let started = false;
  for await (const value of source) {
    if (signal.aborted) break;
    if (started) await onProgress(last);
    started = true;
    last = value;
  }
  return last;
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
