import {
  type AttemptControl,
  BatchedEvents,
  type EventBatches,
  type LanguageModel,
  ModelError,
  type ModelEvent,
  type ModelRequest,
  NO_USAGE,
} from '@toolloop/protocol';
import { WHOLE_ABOVE_ZERO } from '../findings/option-rules.js';
import { defineOptions, type OptionRule } from '../findings/options.js';
import { Attempt, usageOf } from './attempt.js';
import { pause } from './pause.js';
import { WrappedModel } from './wrapped-model.js';
import { assertWrapper } from './wrapper-findings.js';

/**
 * Retries a model if its answer failed temporarily before any of it was shown: a status such as 429
 * or 503, an overload reported inside the stream, a connection that breaks before the first word, a
 * provider that stays silent. Waits with an exponential back-off, and longer if the provider asks
 * for it (`Retry-After`), up to `longestWaitMs`. The loop does this by itself, with the defaults,
 * for each wire that is not within `retried` or `fallback`: no one else retries.
 *
 * @throws ConfigurationError for wrong options
 * @example
 * retried(openai('gpt-5-mini'), { attempts: 5 });
 */
export function retried(model: LanguageModel, options: RetryOptions = {}): LanguageModel {
  assertWrapper('retried', [model], options, RETRY_OPTIONS);
  return new RetriedModel(model, options);
}

export interface RetryOptions {
  /** The number of attempts, including the first. @default 3 */
  readonly attempts?: number;
  /**
   * The wait before the second attempt, in milliseconds; it doubles with every further one, and is
   * shortened at random by up to half. @default 500
   */
  readonly firstWaitMs?: number;
  /**
   * The longest wait, in milliseconds. If a provider asks for a longer one, there is no further
   * attempt. @default 20_000
   */
  readonly longestWaitMs?: number;
}

export class RetriedModel extends WrappedModel {
  constructor(
    model: LanguageModel,
    private readonly options: RetryOptions = {},
  ) {
    super(model);
  }

  override get controls(): AttemptControl {
    return 'all';
  }

  stream(request: ModelRequest, signal: AbortSignal): BatchedEvents {
    return new BatchedEvents(new RetriedAnswer(this.model, request, signal, this.options), signal);
  }
}

class RetriedAnswer implements EventBatches {
  private count = 1;
  private attempt: Attempt | undefined;
  private spent = NO_USAGE;
  private failure: { readonly error: unknown } | undefined;

  constructor(
    private readonly model: LanguageModel,
    private readonly request: ModelRequest,
    private readonly signal: AbortSignal,
    private readonly options: RetryOptions,
  ) {}

  async next(): Promise<readonly ModelEvent[] | undefined> {
    const { model, request, signal } = this;
    while (!signal.aborted && !this.failure) {
      const attempt = (this.attempt ??= new Attempt(model, request, signal, this.spent));
      try {
        const events = attempt.taken(await attempt.reading.next());
        if (events?.length !== 0) return events;
      } catch (error) {
        const used = await this.tried(attempt, error);
        if (used.length > 0) return used;
      }
    }
    if (this.failure) throw this.failure.error;
    return undefined;
  }

  get hasEnded(): boolean {
    return this.attempt?.hasEnded === true;
  }

  close(): void | Promise<void> {
    return this.attempt?.close();
  }

  /** Waits before the next attempt; after the last one returns what all have used. */
  private async tried(attempt: Attempt, error: unknown): Promise<readonly ModelEvent[]> {
    const { attempts = 3 } = this.options;
    const wait =
      attempt.hasShown || this.count >= attempts ? undefined : this.waitFor(error, this.count);
    if (wait === undefined) {
      this.failure = { error };
      return usageOf(attempt);
    }
    this.count += 1;
    ({ spent: this.spent } = attempt);
    this.attempt = undefined;
    await pause(wait, this.signal);
    return [];
  }

  /**
   * Computes the wait before the next attempt; undefined for a failure that is not temporary, or
   * not short enough.
   */
  private waitFor(error: unknown, count: number): number | undefined {
    if (!(error instanceof ModelError) || !error.isRetryable) return undefined;
    const { firstWaitMs = 500, longestWaitMs = 20_000 } = this.options;
    const { retryAfterMs = 0 } = error;
    if (retryAfterMs > longestWaitMs) return undefined;
    const backOff =
      Math.min(longestWaitMs, firstWaitMs * 2 ** (count - 1)) * (0.5 + Math.random() / 2);
    return retryAfterMs > backOff ? retryAfterMs : backOff;
  }
}

/** The form of a wait: Node's timers do not support a longer one. */
const WAIT_MS: OptionRule<number> = {
  wanted: `milliseconds, from 0 to ${2 ** 31 - 1}`,
  accept: (value) => typeof value === 'number' && value >= 0 && value < 2 ** 31,
};

const RETRY_OPTIONS = defineOptions<RetryOptions>({
  attempts: WHOLE_ABOVE_ZERO,
  firstWaitMs: WAIT_MS,
  longestWaitMs: WAIT_MS,
});
