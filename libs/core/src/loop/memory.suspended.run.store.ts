import { Injectable } from '@nestjs/common';
import { SuspendedRunStore, type SuspendedRun } from '../protocol/suspended-run.js';

const MOST_RUNS = 1_000;

/** Keeps waiting runs for as long as the process lives. Past 1,000 the oldest goes. */
@Injectable()
export class MemorySuspendedRunStore extends SuspendedRunStore {
  private readonly runs = new Map<string, SuspendedRun>();

  override save(run: SuspendedRun): Promise<void> {
    this.runs.set(run.runId, run);
    const [oldest] = this.runs.keys();
    if (this.runs.size > MOST_RUNS && oldest !== undefined) this.runs.delete(oldest);
    return Promise.resolve();
  }

  override find(runId: string): Promise<SuspendedRun | undefined> {
    return Promise.resolve(this.runs.get(runId));
  }

  override take(runId: string): Promise<SuspendedRun | undefined> {
    const run = this.runs.get(runId);
    this.runs.delete(runId);
    return Promise.resolve(run);
  }
}
