import { setTimeout as wait } from 'node:timers/promises';
import { Injectable, Logger, type BeforeApplicationShutdown } from '@nestjs/common';
import { withinTime } from '../execution/interruption.js';
import type { RunHandle } from '../protocol/run-handle.js';

/** A run that has been aborted ends at once, but for what it keeps; a store that hangs must not keep the application from ending. */
const LONGEST_END_MS = 10_000;
const FAREWELL_MS = 100;
const REASON = 'The application is shutting down.';

/** Waits until what was said last has left the process: Nest closes the connections next, whether their streams have ended or not. */
export function farewell(): Promise<void> {
  return wait(FAREWELL_MS);
}

/** What of a run is needed to end it. */
type Cancelled = Pick<RunHandle, 'cancel'>;

/** The runs that end with their process. When it shuts down they are told to, while those who read them can still be told of it. */
@Injectable()
export class OpenRuns implements BeforeApplicationShutdown {
  private readonly logger = new Logger(OpenRuns.name);
  private readonly open = new Map<Cancelled, Promise<void>>();
  private isClosing = false;

  /** A run has begun; `end` settles when it has ended. */
  add(run: Cancelled, end: Promise<unknown>): void {
    const forget = (): void => void this.open.delete(run);
    this.open.set(run, end.then(forget, forget));
    if (this.isClosing) run.cancel(REASON);
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.isClosing = true;
    if (this.open.size === 0) return;
    for (const run of this.open.keys()) run.cancel(REASON);
    try {
      await withinTime(Promise.all(this.open.values()), LONGEST_END_MS);
    } catch {
      this.logger.warn(
        `${this.open.size} of the runs did not end within ${LONGEST_END_MS} ms of being aborted; the application ends without them.`,
      );
    }
    await farewell();
  }
}
