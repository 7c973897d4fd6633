export interface SearchLimits {
  /** @default 100 */
  readonly maxMatches?: number;
  /** Files and directories looked at. @default 20_000 */
  readonly maxEntries?: number;
  /** Bytes read, all files together. @default 100_000_000 */
  readonly maxBytes?: number;
  /** Milliseconds. What was found until then is the result. @default 10_000 */
  readonly timeoutMs?: number;
}

/** Why a search ended before all was looked at. */
export type SearchStop = 'matches' | 'entries' | 'bytes' | 'time';

/** What is left of one search's limits. Each `spend…` says whether the search may go on. */
export class SearchBudget {
  stoppedBy: SearchStop | undefined;
  private matches: number;
  private entries: number;
  private bytes: number;
  private readonly end: number;

  constructor({ maxMatches = 100, maxEntries = 20_000, maxBytes = 100_000_000, timeoutMs = 10_000 }: SearchLimits) {
    this.matches = maxMatches;
    this.entries = maxEntries;
    this.bytes = maxBytes;
    this.end = performance.now() + timeoutMs;
  }

  spendMatch(): boolean {
    this.matches -= 1;
    return this.goesOn('matches', this.matches);
  }

  spendEntry(): boolean {
    this.entries -= 1;
    return this.goesOn('entries', this.entries);
  }

  spendBytes(count: number): boolean {
    this.bytes -= count;
    return this.goesOn('bytes', this.bytes);
  }

  /** Whether there is time left. */
  hasTime(): boolean {
    return this.goesOn('time', this.end - performance.now());
  }

  private goesOn(stop: SearchStop, left: number): boolean {
    if (left < 0) this.stoppedBy ??= stop;
    return this.stoppedBy === undefined;
  }
}
