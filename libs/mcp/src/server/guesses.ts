/**
 * Counts the words that people type, so that no one tries many of them: by the address that they
 * come from, and by what they are about.
 */
export class Guesses {
  private readonly tries = new Map<string, Tries>();

  /**
   * Counts a try by each of its keys. Returns the milliseconds to wait where it is one too many by
   * any of them; 0 where it may be made.
   */
  take(keys: readonly string[]): number {
    const now = performance.now();
    return Math.max(...keys.map((key) => this.count(key, now)));
  }

  /** Gives the try of a right word back. */
  giveBack(keys: readonly string[]): void {
    for (const key of keys) {
      const tries = this.tries.get(key);
      if (tries) tries.count -= 1;
    }
  }

  private count(key: string, now: number): number {
    const known = this.tries.get(key);
    const tries = known && known.until > now ? known : this.begun(key, now);
    tries.count += 1;
    return tries.count > MOST_GUESSES ? tries.until - now : 0;
  }

  private begun(key: string, now: number): Tries {
    const tries = { count: 0, until: now + PERIOD_MS };
    this.tries.delete(key);
    this.tries.set(key, tries);
    const [oldest] = this.tries.keys();
    if (this.tries.size > MOST_KEYS && oldest !== undefined) this.tries.delete(oldest);
    return tries;
  }
}

/** The wrong words that may be typed within {@link PERIOD_MS}, as at the console's sign-in. */
export const MOST_GUESSES = 5;

const PERIOD_MS = 60_000;
/** More are forgotten from the oldest on. */
const MOST_KEYS = 10_000;

interface Tries {
  count: number;
  readonly until: number;
}
