import type { Place } from './place.js';

/**
 * The lists that the server says have changed, and the session, about which the tabs of a browser
 * tell one another.
 */
export type Changed = 'inbox' | 'runs' | 'session';

const CHANGES: readonly Changed[] = ['inbox', 'runs'];
/**
 * Milliseconds until a stream is opened anew that the browser has given up, as it does at any
 * answer but a stream.
 */
const AGAIN_MS = 10_000;
const CHANNEL = 'toolloop-console-feed';

/**
 * Tells the page that a list has changed. One tab of the browser has the stream, which is the one
 * that holds the lock; it passes each notice on to the others. When it is closed, the lock falls to
 * another.
 */
export class Feed {
  private readonly watchers = new Set<(changed: Changed) => void>();
  private readonly channel =
    typeof BroadcastChannel === 'undefined' ? undefined : new BroadcastChannel(CHANNEL);

  constructor(private readonly place: Place) {}

  /** Begins, and returns how to end it. */
  start(): () => void {
    const left = new AbortController();
    if (this.place.fetch) return () => left.abort(); // a page without a server has no stream either
    this.channel?.addEventListener(
      'message',
      ({ data }: MessageEvent<unknown>) => this.tell(data),
      { signal: left.signal },
    );
    const lead = (): Promise<void> => this.lead(left.signal);
    const { locks } = navigator as { readonly locks?: LockManager };
    const leading = locks
      ? locks.request(`${CHANNEL} ${this.place.own}`, { signal: left.signal }, lead)
      : lead();
    leading.catch(() => undefined); // the page was left before its turn came
    return () => left.abort();
  }

  /** Calls back at each change, until the returned function is called. */
  readonly watch = (watcher: (changed: Changed) => void): (() => void) => {
    this.watchers.add(watcher);
    return () => void this.watchers.delete(watcher);
  };

  /**
   * Tells the other tabs of the browser of a change that this one has made: the server tells of an
   * answer once the run that asked has read it.
   */
  tellOthers(changed: Changed): void {
    this.channel?.postMessage(changed);
  }

  private lead(signal: AbortSignal): Promise<void> {
    this.open(signal);
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
  }

  private open(signal: AbortSignal): void {
    if (signal.aborted) return;
    const source = new EventSource(`${this.place.own}/feed`);
    signal.addEventListener('abort', () => source.close());
    const pass = (data: unknown): void => {
      this.tell(data);
      this.channel?.postMessage(data);
    };
    source.addEventListener('message', ({ data }: MessageEvent<unknown>) => pass(data));
    // What changed before the stream was there, as when its tab was closed, was told to no one.
    source.addEventListener('open', () => CHANGES.forEach(pass));
    source.addEventListener('error', () => {
      if (source.readyState !== EventSource.CLOSED || signal.aborted) return;
      pass('session'); // the answer was none of a stream: the session may have ended
      setTimeout(() => this.open(signal), AGAIN_MS);
    });
  }

  private tell(data: unknown): void {
    if (data === 'inbox' || data === 'runs' || data === 'session')
      for (const watcher of this.watchers) watcher(data);
  }
}
