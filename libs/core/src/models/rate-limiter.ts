import { ModelError, type Usage } from '@toolloop/protocol';

/** Starts requests in their order, no faster than the limits allow over any minute. */
export class RateLimiter {
  private readonly waiting = new Set<Waiting>();
  /** The requests of the last minute, oldest first, and the open ones. */
  private entries: Entry[] = [];
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly limits: RateLimits,
    private readonly name: string,
  ) {}

  /**
   * Waits for the permission to start; undefined if the signal is aborted first. Rejects with a
   * `ModelError` if too many requests wait already.
   */
  turn(signal: AbortSignal): Promise<Turn | undefined> {
    if (signal.aborted) return Promise.resolve(undefined);
    const { queue = 100 } = this.limits;
    if (this.waiting.size === 0 && this.wait(performance.now()) === 0)
      return Promise.resolve(this.begin());
    if (this.waiting.size >= queue)
      return Promise.reject(
        new ModelError(
          `${queue} requests to ${this.name} are waiting already, which is the maximum.`,
          {
            code: 'rate_limited',
            retryable: true,
          },
        ),
      );
    return this.enqueue(signal);
  }

  private enqueue(signal: AbortSignal): Promise<Turn | undefined> {
    return new Promise((resolve) => {
      const leave = (): void => {
        this.waiting.delete(waiting);
        this.admit();
        resolve(undefined);
      };
      const waiting: Waiting = {
        go: (turn) => {
          signal.removeEventListener('abort', leave);
          resolve(turn);
        },
      };
      signal.addEventListener('abort', leave, { once: true });
      this.waiting.add(waiting);
      this.admit();
    });
  }

  /** Starts the requests that may start, in order, and runs again when the next one may. */
  private admit(): void {
    clearTimeout(this.timer);
    for (const waiting of this.waiting) {
      const wait = this.wait(performance.now());
      if (wait > 0) {
        if (wait < Infinity) this.timer = setTimeout(() => this.admit(), Math.ceil(wait));
        return;
      }
      this.waiting.delete(waiting);
      waiting.go(this.begin());
    }
  }

  private begin(): Turn {
    const entry: Entry = { startedAt: performance.now(), tokens: undefined, isUnderWay: true };
    this.entries.push(entry);
    return {
      count: ({ inputTokens, outputTokens }) => {
        entry.tokens = inputTokens + outputTokens;
      },
      end: () => {
        entry.isUnderWay = false;
        this.admit();
      },
    };
  }

  /** Computes the milliseconds until one more may start; `Infinity` if another has to end first. */
  private wait(now: number): number {
    const {
      requestsPerMinute = Infinity,
      tokensPerMinute = Infinity,
      concurrent = Infinity,
    } = this.limits;
    this.entries = this.entries.filter(
      ({ startedAt, isUnderWay }) => isUnderWay || now - startedAt < MINUTE_MS,
    );
    if (this.entries.filter(({ isUnderWay }) => isUnderWay).length >= concurrent) return Infinity;
    const recent = this.entries.filter(({ startedAt }) => now - startedAt < MINUTE_MS);
    return Math.max(
      untilFewer(recent, now, () => 1, requestsPerMinute),
      untilFewer(recent, now, this.expected(), tokensPerMinute),
    );
  }

  /**
   * Returns a function that estimates the tokens of a request: its own count or, while that is
   * unknown, the average of the others.
   */
  private expected(): (entry: Entry) => number {
    const known = this.entries.flatMap(({ tokens }) => tokens ?? []);
    const mean = known.reduce((sum, tokens) => sum + tokens, 0) / Math.max(1, known.length);
    return ({ tokens, isUnderWay }) => tokens ?? (isUnderWay ? mean : 0);
  }
}

const MINUTE_MS = 60_000;

export interface RateLimits {
  /** The most requests per minute. @default no limit */
  readonly requestsPerMinute?: number;
  /**
   * The most input and output tokens per minute. A request starts while the tokens of the last
   * minute, plus the expected ones of open requests, are fewer. @default no limit
   */
  readonly tokensPerMinute?: number;
  /** The most requests at the same time. @default no limit */
  readonly concurrent?: number;
  /** The most requests that may wait. @default 100 */
  readonly queue?: number;
}

/** The permission of a request to start. */
export interface Turn {
  /** Counts the tokens of the request; a later count replaces an earlier one. */
  count(usage: Usage): void;
  end(): void;
}

interface Entry {
  readonly startedAt: number;
  tokens: number | undefined;
  isUnderWay: boolean;
}

interface Waiting {
  readonly go: (turn: Turn) => void;
}

/**
 * Computes the time until so many of the oldest requests are a minute old that the others weigh
 * less than the limit.
 */
function untilFewer(
  entries: readonly Entry[],
  now: number,
  weigh: (entry: Entry) => number,
  most: number,
): number {
  let left = entries.reduce((sum, entry) => sum + weigh(entry), 0);
  let wait = 0;
  for (const entry of entries) {
    if (left < most) break;
    left -= weigh(entry);
    wait = entry.startedAt + MINUTE_MS - now;
  }
  return wait;
}
