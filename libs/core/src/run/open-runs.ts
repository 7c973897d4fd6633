import { ServiceUnavailableException } from '@nestjs/common';
import { withinTime } from '../contracts/interruption.js';
import type { RunHandle } from '../contracts/loop-request.js';
import { Logger } from '../findings/logger.js';
import { flushBeforeClose } from './flush-before-close.js';

/**
 * The runs that end with their process. When it shuts down they are told to, while those who read
 * them can still be told of it.
 */
export class OpenRuns {
  private readonly logger = new Logger(OpenRuns.name);
  private readonly open = new Map<Cancelled, Promise<void>>();
  private isClosing = false;

  /** A run has begun; `end` settles when it has ended. */
  add(run: Cancelled, end: Promise<unknown>): void {
    const forget = (): void => void this.open.delete(run);
    this.open.set(run, end.then(forget, forget));
    if (this.isClosing) run.cancel(REASON);
  }

  /**
   * @throws {ServiceUnavailableException} Once the application is told to stop: its stores close
   *   behind the runs that it has.
   */
  assertOpen(): void {
    if (this.isClosing)
      throw new ServiceUnavailableException({
        code: 'shutting_down',
        message: `${REASON} Send the request again.`,
      });
  }

  /** Refuses further runs. */
  refuse(): void {
    this.isClosing = true;
  }

  /** Aborts the runs, and waits until they have ended. */
  async close(): Promise<void> {
    this.refuse();
    if (this.open.size === 0) return;
    for (const run of this.open.keys()) run.cancel(REASON);
    try {
      await withinTime(Promise.all(this.open.values()), LONGEST_END_MS);
    } catch {
      this.logger.warn(
        `${this.open.size} of the runs did not end within ${LONGEST_END_MS} ms of being aborted; the application ends without them.`,
      );
    }
    await flushBeforeClose();
  }
}

/**
 * A run that has been aborted ends at once, but for what it keeps; a store that hangs must not keep
 * the application from ending.
 */
const LONGEST_END_MS = 10_000;
const REASON = 'The application is shutting down.';

/** The part of a run that is needed to end it. */
type Cancelled = Pick<RunHandle, 'cancel'>;
