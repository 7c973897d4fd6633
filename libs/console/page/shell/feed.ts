import type { Place } from './place.js';

/** The lists that the server says have changed. */
export type Changed = 'inbox' | 'runs';

const CHANGES: readonly Changed[] = ['inbox', 'runs'];
const CHANNEL = 'toolloop-console-feed';

/**
 * Tells the page that a list has changed. One tab of the browser has the stream, which is the one that holds the lock; it passes each notice on to the others. When it is closed,
 * the lock falls to another.
 */
export class Feed {
  private readonly watchers = new Set<(changed: Changed) => void>();
  private readonly channel = typeof BroadcastChannel === 'undefined' ? undefined : new BroadcastChannel(CHANNEL);

  constructor(private readonly place: Place) {}

  /** Begins, and returns how to end it. */
  start(): () => void {
    const left = new AbortController();
    if (this.place.fetch) return () => left.abort(); // a page without a server has no stream either
    this.channel?.addEventListener('message', ({ data }: MessageEvent<unknown>) => this.tell(data), { signal: left.signal });
    const lead = (): Promise<void> => this.lead(left.signal);
    const { locks } = navigator as { readonly locks?: LockManager };
    const leading = locks ? locks.request(`${CHANNEL} ${this.place.own}`, { signal: left.signal }, lead) : lead();
    leading.catch(() => undefined); // the page was left before its turn came
    return () => left.abort();
  }

  /** Calls back at each change, until the returned function is called. */
  readonly watch = (watcher: (changed: Changed) => void): (() => void) => {
    this.watchers.add(watcher);
    return () => void this.watchers.delete(watcher);
  };

  /** Tells the other tabs of the browser of a change that this one has made: the server tells of an answer once the run that asked has read it. */
  tellOthers(changed: Changed): void {
    this.channel?.postMessage(changed);
  }

  private lead(signal: AbortSignal): Promise<void> {
    const source = new EventSource(`${this.place.own}/feed`);
    const pass = (data: unknown): void => {
      this.tell(data);
      this.channel?.postMessage(data);
    };
    source.addEventListener('message', ({ data }: MessageEvent<unknown>) => pass(data));
    // What changed before the stream was there, as when its tab was closed, was told to no one.
    source.addEventListener('open', () => CHANGES.forEach(pass));
    return new Promise((resolve) => {
      signal.addEventListener('abort', () => {
        source.close();
        resolve();
      });
    });
  }

  private tell(data: unknown): void {
    if (data === 'inbox' || data === 'runs') for (const watcher of this.watchers) watcher(data);
  }
}
