/**
 * A value that changes, and tells those who watch it: the form in which React reads one from
 * outside.
 */
export class Observed<State> {
  private readonly watchers = new Set<() => void>();

  constructor(private current: State) {}

  readonly snapshot = (): State => this.current;

  /** Calls back at each change, until the returned function is called. */
  readonly subscribe = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => void this.watchers.delete(watcher);
  };

  protected show(change: Partial<State>): void {
    this.current = { ...this.current, ...change };
    for (const watcher of this.watchers) watcher();
  }
}

/** The error as a page shows it. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** Tells whether reading was stopped on purpose. */
export function isAbort(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === 'AbortError';
}
