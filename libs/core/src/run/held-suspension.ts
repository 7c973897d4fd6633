import type { RunHandle } from '../contracts/loop-request.js';
import type { RunHold } from '../contracts/run-log.js';
import type { ContinuedRun } from './continued-run.js';

/** A run that was suspended and is held by this process. */
export class HeldSuspension implements ContinuedRun {
  isEnding = false;
  isOurs = true;

  constructor(
    readonly hold: RunHold,
    private readonly run: Pick<RunHandle, 'cancel'>,
  ) {}

  cancel(reason: string): void {
    this.run.cancel(reason);
  }

  lose(): void {
    this.isOurs = false;
    this.run.cancel('Another process has taken over the run.');
  }
}
