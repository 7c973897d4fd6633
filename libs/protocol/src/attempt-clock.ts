import { ModelError } from './errors.js';
import type { ModelTimeLimits } from './language-model.js';

/**
 * The clock of one attempt to get an answer from a model: it expires when a {@link ModelTimeLimits}
 * is reached. It runs only while the attempt is being listened to, since the time in which a slow
 * reader makes the model wait is not the model's.
 *
 * @example
 * const clock = new AttemptClock(limits, () => socket.destroy());
 * clock.listen();
 * const bytes = await body.read();
 * clock.pause();
 * if (clock.error) throw clock.error;
 */
export class AttemptClock {
  private readonly startedAt = performance.now();
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** The moment for which the timer is set. */
  private timerAt = Infinity;
  private isListening = false;
  private since = this.startedAt;
  private phase: 'response' | 'content' | 'rest' | 'end' = 'response';
  private expired: ModelError | undefined;

  /** @param onExpiry called once, when a limit is reached: it has to end the attempt */
  constructor(
    private readonly limits: ModelTimeLimits,
    private readonly onExpiry: (error: ModelError) => void,
  ) {}

  /**
   * The limit that was reached, as the retryable error of the attempt; undefined while none was.
   */
  get error(): ModelError | undefined {
    return this.expired;
  }

  /** Starts to count silence, when the next bytes or the next event are asked for. */
  listen(): void {
    if (this.phase !== 'end') this.since = performance.now();
    this.isListening = true;
    this.schedule();
  }

  /** Stops counting, because something came or because the reader is at work. */
  pause(): void {
    this.isListening = false;
  }

  /** Notes a sign of life that is no content: a ping, a signature, white space. */
  takeLife(): void {
    if (this.phase === 'response') this.enter('content');
  }

  /** Notes content of the answer. */
  takeContent(): void {
    if (this.phase !== 'rest') this.enter('rest');
  }

  /** Notes that nothing of the answer is missing: from now on, signs of life no longer count. */
  takeEnd(): void {
    if (this.phase === 'end') return;
    this.since = performance.now();
    this.enter('end');
  }

  /** Stops the clock for good. */
  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.isListening = false;
  }

  private enter(phase: 'content' | 'rest' | 'end'): void {
    this.phase = phase;
    if (this.isListening) this.schedule();
  }

  /**
   * Sets the timer where none comes in time. One that comes too early looks again, so that it is
   * not moved with every sign of life.
   */
  private schedule(): void {
    const { deadline } = this;
    if (this.timer !== undefined && this.timerAt <= deadline) return;
    clearTimeout(this.timer);
    this.timer = undefined;
    const wait = deadline - performance.now();
    if (wait > LONGEST_TIMER_MS) return;
    this.timerAt = deadline;
    this.timer = setTimeout(() => this.check(), Math.max(0, Math.ceil(wait)));
  }

  /** Expires if a limit is reached; while paused, it waits for `listen`. */
  private check(): void {
    this.timer = undefined;
    if (!this.isListening) return;
    const error = this.reached(performance.now());
    if (error === undefined) {
      this.schedule();
      return;
    }
    this.expired = error;
    this.onExpiry(error);
  }

  /** The moment at which the first of the limits is reached. */
  private get deadline(): number {
    const { startedAt, since, phase } = this;
    const { firstByteMs, firstContentMs, idleMs } = this.limits;
    if (phase === 'response') return startedAt + Math.min(firstByteMs, firstContentMs);
    const silence = since + idleMs;
    return phase === 'content' ? Math.min(silence, startedAt + firstContentMs) : silence;
  }

  private reached(now: number): ModelError | undefined {
    const { startedAt, since, phase } = this;
    const { firstByteMs, firstContentMs, idleMs } = this.limits;
    if (phase === 'response' && now - startedAt >= firstByteMs) return withoutResponse(firstByteMs);
    if (phase !== 'response' && now - since >= idleMs) return silent(idleMs);
    const hasContent = phase === 'rest' || phase === 'end';
    return !hasContent && now - startedAt >= firstContentMs
      ? withoutContent(firstContentMs)
      : undefined;
  }
}

/** The longest time that a timer supports; anything longer is no limit. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

function withoutResponse(ms: number): ModelError {
  return new ModelError(`The provider did not begin to answer within ${ms} ms.`, {
    code: 'no_response',
    retryable: true,
  });
}

function withoutContent(ms: number): ModelError {
  return new ModelError(
    `The provider sent no content within ${ms} ms, though its connection was alive.`,
    {
      code: 'no_content',
      retryable: false, // it would think as long again
    },
  );
}

function silent(ms: number): ModelError {
  return new ModelError(`The provider was silent for ${ms} ms in the middle of its answer.`, {
    code: 'idle',
    retryable: true,
  });
}
