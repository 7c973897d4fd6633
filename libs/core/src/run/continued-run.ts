import type { RunHold, RunLog } from '../contracts/run-log.js';

/** A run that this process has taken out of the log, for as long as it continues here. */
export interface ContinuedRun {
  readonly hold: RunHold;
  /**
   * Set while its end is being written: only that tells then if the run was still this process's.
   */
  readonly isEnding: boolean;
  cancel(reason: string): void;
  /** Another process has taken the run. */
  lose(): void;
}

/**
 * Renews the leases of runs that continue here; cancels those that are to end, and gives up those
 * that another process has taken.
 */
export async function renewContinued(
  log: RunLog,
  runs: readonly ContinuedRun[],
  forMs: number,
): Promise<void> {
  const held = new Map(
    (
      await log.renew(
        runs.map(({ hold }) => hold),
        forMs,
      )
    ).map((run) => [run.runId, run]),
  );
  for (const run of runs) {
    const record = held.get(run.hold.runId);
    if (record?.cancelled !== undefined) run.cancel(record.cancelled);
    else if (!record && !run.isEnding) run.lose();
  }
}
